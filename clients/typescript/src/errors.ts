// The errors of a call, with the details that the service sends.

import { Code, ConnectError } from "@connectrpc/connect";

import {
  BadRequestSchema,
  ErrorInfoSchema,
  RequestInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";

/** An invalid field of a request. */
export interface Violation {
  readonly field: string;
  readonly description: string;
}

const RETRYABLE: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.ResourceExhausted,
  Code.DeadlineExceeded,
]);

/**
 * The error of a call. `code` says what the caller can do: InvalidArgument and FailedPrecondition
 * are not to be repeated, Unavailable and ResourceExhausted after `retryDelayMs`, DeadlineExceeded
 * at once.
 */
export class TriviumError extends Error {
  override readonly name = "TriviumError";
  readonly code: Code;
  /** A value of ErrorReason without its prefix; "" without details. */
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly violations: readonly Violation[];
  /** Unset if it is unknown. */
  readonly retryDelayMs: number | undefined;
  /** The id of the call in the log of the service. */
  readonly requestId: string;

  constructor(cause: ConnectError) {
    super(cause.rawMessage, { cause });
    const [info] = cause.findDetails(ErrorInfoSchema);
    const [invalid] = cause.findDetails(BadRequestSchema);
    const delay = cause.findDetails(RetryInfoSchema)[0]?.retryDelay;
    this.code = cause.code;
    this.reason = info?.reason.replace(/^ERROR_REASON_/, "") ?? "";
    this.metadata = info?.metadata ?? {};
    this.violations = (invalid?.fieldViolations ?? []).map(({ field, description }) => ({
      field,
      description,
    }));
    this.retryDelayMs = delay && Number(delay.seconds) * 1e3 + delay.nanos / 1e6;
    this.requestId = cause.findDetails(RequestInfoSchema)[0]?.requestId ?? "";
  }

  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return RETRYABLE.has(this.code);
  }
}

/** The answer of a generated client, whose errors become TriviumErrors. */
export async function typed<Answer>(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    throw new TriviumError(ConnectError.from(error));
  }
}
