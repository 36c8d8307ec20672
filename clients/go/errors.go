package trivium

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is the error of a call, with the details that the service sends.
//
// What the caller can do follows from the code: INVALID_ARGUMENT and FAILED_PRECONDITION are not to
// be repeated; UNAVAILABLE and RESOURCE_EXHAUSTED after RetryDelay; DEADLINE_EXCEEDED at once.
type Error struct {
	Code       codes.Code
	Message    string
	Reason     string            // A value of ErrorReason without its prefix; "" without details.
	Metadata   map[string]string // Of the reason.
	Violations []Violation       // The invalid fields of the request.
	RetryDelay time.Duration     // 0 if it is unknown.
	RequestID  string            // The id of the call in the log of the service.

	status *status.Status
}

// Violation is an invalid field of a request.
type Violation struct{ Field, Description string }

// Error returns the reason, or the code, with the message.
func (its *Error) Error() string {
	reason := its.Reason
	if reason == "" {
		reason = its.Code.String()
	}
	return fmt.Sprintf("%s: %s", reason, its.Message)
}

// Is lets errors.Is find context.DeadlineExceeded and context.Canceled, as which a context ends.
func (its *Error) Is(target error) bool {
	return its.Code == codes.DeadlineExceeded && target == context.DeadlineExceeded ||
		its.Code == codes.Canceled && target == context.Canceled
}

// GRPCStatus lets status.Code and status.FromError read the error.
func (its *Error) GRPCStatus() *status.Status { return its.status }

// Retryable says whether the same call may succeed later.
func (its *Error) Retryable() bool {
	switch its.Code {
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// AsError converts the error of a generated client; nil stays nil.
func AsError(err error) error {
	if err == nil {
		return nil
	}
	its, known := status.FromError(err)
	if !known {
		return err
	}
	found := &Error{Code: its.Code(), Message: its.Message(), status: its}
	for _, detail := range its.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			found.Reason = strings.TrimPrefix(detail.GetReason(), "ERROR_REASON_")
			found.Metadata = detail.GetMetadata()
		case *errdetails.BadRequest:
			for _, each := range detail.GetFieldViolations() {
				found.Violations = append(
					found.Violations, Violation{each.GetField(), each.GetDescription()})
			}
		case *errdetails.RetryInfo:
			found.RetryDelay = detail.GetRetryDelay().AsDuration()
		case *errdetails.RequestInfo:
			found.RequestID = detail.GetRequestId()
		}
	}
	return found
}
