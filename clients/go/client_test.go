package trivium_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	trivium "trivium.dev/go"
	triviumv1 "trivium.dev/go/v1"
)

// fakeService notes what it is sent, and fails if it has an error to.
type fakeService struct {
	triviumv1.UnimplementedRetrievalServiceServer
	err           error
	authorization []string
	budget, left  time.Duration
}

func (fake *fakeService) Retrieve(
	ctx context.Context, request *triviumv1.RetrieveRequest,
) (*triviumv1.RetrieveResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	deadline, _ := ctx.Deadline()
	fake.authorization = append(fake.authorization, strings.Join(sent["authorization"], ","))
	fake.budget, fake.left = request.GetTimeBudget().AsDuration(), time.Until(deadline)
	return &triviumv1.RetrieveResponse{Briefing: "for " + request.GetTenant()}, fake.err
}

func serve(t *testing.T, fake *fakeService) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	triviumv1.RegisterRetrievalServiceServer(server, fake)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func connect(t *testing.T, target string, options ...trivium.Option) *trivium.Client {
	t.Helper()
	client, err := trivium.New(target, "go", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestTheTimeThatIsLeftIsTheDeadlineAndNineTenthsOfItTheBudget(t *testing.T) {
	fake := &fakeService{}
	client := connect(t, serve(t, fake))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	block, err := client.Briefing(ctx, "where?", nil)

	if err != nil || block != "for go" {
		t.Fatal(block, err)
	}
	if fake.budget <= 20*time.Second || fake.budget > 27*time.Second || fake.left > 30*time.Second {
		t.Error(fake.budget, fake.left)
	}
	if _, err := client.Briefing(context.Background(), "where?", nil); err != nil {
		t.Fatal(err)
	}
	if fake.budget > trivium.DefaultTimeout*9/10 {
		t.Error("without a deadline, the client's timeout holds:", fake.budget)
	}
}

func TestATokenIsSentWithEachCall(t *testing.T) {
	fake := &fakeService{}
	target := serve(t, fake)
	asked := 0
	source := func(context.Context) (string, error) {
		asked++
		return strings.Repeat("t", asked), nil
	}
	changing := connect(t, target, trivium.WithTokenSource(source))
	fixed := connect(t, target, trivium.WithToken("fixed"))

	for _, client := range []*trivium.Client{changing, changing, fixed, connect(t, target)} {
		if _, err := client.Retrieve(context.Background(), "x", nil); err != nil {
			t.Fatal(err)
		}
	}

	if !slices.Equal(fake.authorization, []string{"Bearer t", "Bearer tt", "Bearer fixed", ""}) {
		t.Error(fake.authorization)
	}
}

func TestAnErrorCarriesTheDetailsOfItsStatus(t *testing.T) {
	failed, err := status.New(codes.ResourceExhausted, "no room").WithDetails(
		&errdetails.ErrorInfo{Reason: "OVERLOADED", Metadata: map[string]string{"queue": "query"}},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "limit", Description: "too large"},
		}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)},
		&errdetails.RequestInfo{RequestId: "r1"},
	)
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, serve(t, &fakeService{err: failed.Err()}))

	_, err = client.Retrieve(context.Background(), "x", nil)

	var found *trivium.Error
	if !errors.As(err, &found) {
		t.Fatal(err)
	}
	if found.Error() != "OVERLOADED: no room" || found.Metadata["queue"] != "query" ||
		found.RetryDelay != 1500*time.Millisecond || found.RequestID != "r1" || !found.Retryable() {
		t.Errorf("%+v", found)
	}
	if !slices.Equal(found.Violations, []trivium.Violation{{Field: "limit", Description: "too large"}}) {
		t.Error(found.Violations)
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Error(status.Code(err))
	}
}

func TestNoTokenIsSentInClearText(t *testing.T) {
	fake := &fakeService{}
	_, port, _ := net.SplitHostPort(serve(t, fake))
	// A name that is not of loopback, and yet leads here.
	elsewhere := "0.0.0.0:" + port

	if _, err := trivium.New(elsewhere, "go", trivium.WithToken("secret")); !errors.Is(err, trivium.ErrClearText) {
		t.Error(err)
	}
	client := connect(t, elsewhere, trivium.WithToken("secret"), trivium.WithTokenWithoutTLS())
	if _, err := client.Retrieve(context.Background(), "x", nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fake.authorization, []string{"Bearer secret"}) {
		t.Error(fake.authorization)
	}
	for target, here := range map[string]bool{
		"localhost:9000": true, "[::1]:9000": true, "127.1.2.3:9000": true, "unix:/run/trivium": true,
		"dns:///localhost:9000": true, "memory.example:9000": false, "localhost.example:9000": false,
		"10.0.0.1:9000": false, "dns://127.0.0.1/memory.example:9000": false, "127.0.0.1.example": false,
	} {
		if _, err := trivium.New(target, "go", trivium.WithToken("secret")); (err == nil) != here {
			t.Error(target, err)
		}
	}
	if _, err := trivium.New("memory.example:9000", "go", trivium.WithToken("secret"), trivium.WithTLS(nil)); err != nil {
		t.Error(err)
	}
}

func TestTheRequestOfTheCallerStaysAsItIs(t *testing.T) {
	fake := &fakeService{}
	client := connect(t, serve(t, fake))
	retrieve, forget := &triviumv1.RetrieveRequest{Limit: 3}, &triviumv1.ForgetRequest{}
	patch := &triviumv1.PatchRequest{}

	if _, err := client.Retrieve(context.Background(), "x", retrieve); err != nil {
		t.Fatal(err)
	}
	client.Forget(context.Background(), forget)
	client.Patch(context.Background(), patch)

	if !proto.Equal(retrieve, &triviumv1.RetrieveRequest{Limit: 3}) || forget.Tenant+patch.Tenant != "" {
		t.Error(retrieve, forget, patch)
	}
}

func TestTheEndOfAContextIsFoundInTheError(t *testing.T) {
	client := connect(t, serve(t, &fakeService{}))
	passed, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()

	if _, err := client.Retrieve(passed, "x", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := client.Retrieve(cancelled, "x", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	failing := connect(t, serve(t, &fakeService{err: status.Error(codes.Internal, "no")}))
	if _, err := failing.Retrieve(context.Background(), "x", nil); errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// ---------------------------------------------------------------- the running service

func running(t *testing.T) (*trivium.Client, context.Context) {
	t.Helper()
	target := os.Getenv("TRIVIUM_TARGET")
	if target == "" {
		t.Skip("TRIVIUM_TARGET names no service")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return connect(t, target), ctx
}

func TestWhatIsWrittenIsFoundAndForgotten(t *testing.T) {
	client, ctx := running(t)
	written, err := client.Ingest(ctx,
		trivium.Segment(&triviumv1.Segment{Id: "t1", Text: "The lease in Lisbon starts in May."}),
		trivium.Segment(&triviumv1.Segment{Id: "t2", Text: "The car is in the garage."}),
	)
	if err != nil {
		t.Fatal(err)
	}

	found, err := client.Retrieve(ctx, "When does the lease in Lisbon start?",
		&triviumv1.RetrieveRequest{
			ConsistencyToken: written.GetConsistencyToken(),
			Briefing:         &triviumv1.BriefingOptions{},
		})

	if err != nil {
		t.Fatal(err)
	}
	if len(found.GetHits()) == 0 || found.GetHits()[0].GetSegment().GetId() != "t1" {
		t.Error(found.GetHits())
	}
	if !strings.Contains(found.GetBriefing(), "<memory") {
		t.Error(found.GetBriefing())
	}
	forgotten, err := client.Forget(ctx, &triviumv1.ForgetRequest{
		Selector: &triviumv1.ForgetRequest_Everything{Everything: true},
	})
	if err != nil || forgotten.GetSegmentCount() != 2 {
		t.Error(forgotten, err)
	}
}

func TestAnInvalidRequestSaysWhichFieldIsWrong(t *testing.T) {
	client, ctx := running(t)

	_, err := client.Retrieve(ctx, "x", &triviumv1.RetrieveRequest{Limit: -1})

	var found *trivium.Error
	if !errors.As(err, &found) || found.Code != codes.InvalidArgument ||
		found.Reason != "INVALID_FIELD" || found.Violations[0].Field != "limit" {
		t.Error(err)
	}
}
