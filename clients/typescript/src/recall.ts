// Memory for a conversation without making anyone wait, as `trivium.conversation` in Python.

import type { FilterInit, RetrieveOptions, SegmentInit, TriviumClient } from "./client.js";
import { TriviumError } from "./errors.js";

export const BUDGET_MS = 80;
/** The least time of a search that nobody waits for yet. */
const EARLY_BUDGET_MS = 200;
/** The shortest time between two transcripts that are sent. */
const DEBOUNCE_MS = 100;
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 2_000;
const MAX_WAITING_WRITES = 256;
const CLOSE_MS = 5_000;

export interface RecallOptions extends Omit<RetrieveOptions, "timeoutMs" | "signal"> {
  /** The name of the conversation, unique within the tenant; by default a new one. */
  session?: string;
  /** How long `turn` may wait. */
  budgetMs?: number;
}

/** How the turns and the writes of a conversation ended. */
export interface Counts {
  ready: number;
  waited: number;
  late: number;
  failed: number;
  written: number;
  writeRetries: number;
  writeFailures: number;
}

type Search = { words: string; answer: Promise<string>; block?: string; stop: AbortController };

/** The words of a text, without case and punctuation: what makes two transcripts equal. */
export function wordsOf(text: string): string {
  const folded = text.normalize("NFKC").toLowerCase().replace(/['’]/g, "");
  return (folded.match(/[\p{L}\p{M}\p{N}_]+/gu) ?? []).join(" ");
}

/**
 * The memory of one conversation: searches while somebody speaks, and stores turns in the
 * background. No method throws because the service is down or slow; `counts` says how it went.
 */
export class Recall {
  readonly counts: Counts = {
    ready: 0, waited: 0, late: 0, failed: 0, written: 0, writeRetries: 0, writeFailures: 0,
  };
  readonly #client: TriviumClient;
  readonly #session: string;
  readonly #budgetMs: number;
  readonly #options: RetrieveOptions;
  readonly #known = new Set<string>();
  readonly #waiting: SegmentInit[] = [];
  #search: Search | undefined;
  #newest = "";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> | undefined;
  #closed = new AbortController();

  constructor(client: TriviumClient, options: RecallOptions = {}) {
    const { session = `call-${crypto.randomUUID()}`, budgetMs = BUDGET_MS, ...rest } = options;
    this.#client = client;
    this.#session = session;
    this.#budgetMs = budgetMs;
    this.#options = { briefing: {}, ...rest, filter: without(session, rest.filter) };
  }

  /** Prepares the service for the first turn. */
  async warm(): Promise<void> {
    const { profile = "" } = this.#options;
    await this.#client.retrieval.warm({ tenant: this.#client.tenant, profile }).catch(() => {});
  }

  /** Takes an interim transcript: what was said so far of the current turn. Returns at once. */
  heard(partial: string): void {
    const words = wordsOf(partial);
    if (!words || words === wordsOf(this.#newest)) return;
    this.#newest = partial;
    this.#timer ??= this.#send();
  }

  /**
   * Ends the turn, whose whole text this is, and returns the block for the prompt: that of an
   * earlier search if its words are equal, else what is found within the budget; else "".
   */
  async turn(text: string, budgetMs = this.#budgetMs): Promise<string> {
    let search = this.#search;
    this.#search = undefined;
    this.#forgetHeard();
    if (search?.words !== wordsOf(text)) {
      search?.stop.abort();
      search = this.#ask(text, budgetMs);
    }
    if (search.block !== undefined) {
      this.counts.ready++;
      return search.block;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<undefined>((done) => (timer = setTimeout(done, budgetMs, undefined)));
    try {
      const block = await Promise.race([search.answer, late]);
      this.counts[block === undefined ? "late" : "waited"]++;
      return block ?? "";
    } catch {
      this.counts.failed++;
      return "";
    } finally {
      clearTimeout(timer);
      search.stop.abort();
    }
  }

  /** Drops what was heard, as after an interruption. */
  drop(): void {
    this.#search?.stop.abort();
    this.#search = undefined;
    this.#forgetHeard();
  }

  /**
   * Stores a turn once, in the background, as the segment "session/turn". During an outage it is
   * kept, and stored after it.
   */
  said(speaker: string, text: string, turn: string, eventTime = new Date()): void {
    if (this.#known.has(turn)) return;
    this.#known.add(turn);
    if (this.#waiting.length >= MAX_WAITING_WRITES) {
      this.counts.writeFailures++;
      return;
    }
    const session = this.#session;
    this.#waiting.push({ id: `${session}/${turn}`, text, speaker, session, eventTime });
    this.#writing ??= this.#write().finally(() => (this.#writing = undefined));
  }

  /** Drops what was heard, and waits for the writes, at most for the time given. */
  async close(timeoutMs = CLOSE_MS): Promise<void> {
    this.drop();
    const timer = setTimeout(() => this.#closed.abort(), timeoutMs);
    await this.#writing;
    clearTimeout(timer);
    this.counts.writeFailures += this.#waiting.splice(0).length;
  }

  #send(): ReturnType<typeof setTimeout> {
    const sent = this.#newest;
    this.#search?.stop.abort();
    this.#search = this.#ask(sent, Math.max(this.#budgetMs, EARLY_BUDGET_MS));
    return setTimeout(() => {
      this.#timer = undefined;
      if (this.#newest !== sent) this.#timer = this.#send();
    }, DEBOUNCE_MS);
  }

  #ask(text: string, timeoutMs: number): Search {
    const stop = new AbortController();
    const answer = this.#client
      .retrieve(text, { ...this.#options, timeoutMs, signal: stop.signal })
      .then((found) => (search.block = found.briefing));
    answer.catch(() => {}); // whoever waits for it hears of it
    const search: Search = { words: wordsOf(text), answer, stop };
    return search;
  }

  #forgetHeard(): void {
    this.#newest = "";
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #write(): Promise<void> {
    const signal = this.#closed.signal;
    for (let delay = FIRST_RETRY_MS; this.#waiting[0] && !signal.aborted; ) {
      try {
        const { outcomes } = await this.#client.ingest({ segments: [this.#waiting[0]] }, { signal });
        const isRejected = outcomes.some((each) => each.violations.length > 0);
        this.counts[isRejected ? "writeFailures" : "written"]++;
        this.#waiting.shift();
        delay = FIRST_RETRY_MS;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof TriviumError && error.retryable) {
          this.counts.writeRetries++;
          await pause(delay, signal);
          delay = Math.min(2 * delay, MAX_RETRY_MS);
        } else {
          this.counts.writeFailures++;
          this.#waiting.shift();
        }
      }
    }
  }
}

/** The filter without what was said in a session, unless it is by that session. */
function without(session: string, filter: FilterInit = {}): FilterInit {
  if (filter.sessions?.includes(session)) return filter;
  const noneOf = { ...filter.noneOf, sessions: [...(filter.noneOf?.sessions ?? []), session] };
  return { ...filter, noneOf };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}
