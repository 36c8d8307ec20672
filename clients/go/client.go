// Package trivium is the Go client of the Trivium retrieval service: deadlines, credentials and
// errors around the generated stubs of package triviumv1.
package trivium

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	triviumv1 "trivium.dev/go/v1"
)

// Default time limits of calls whose context has no deadline.
const (
	DefaultTimeout      = 2 * time.Second
	DefaultWriteTimeout = time.Minute
)

// maxResponseBytes: a page of 1,000 segments of 32 KiB exceeds gRPC's default of 4 MiB.
const maxResponseBytes = 64 << 20

// Every call of this API but CreateKey is idempotent, so a call is repeated if the connection was
// refused or broke. gRPC does not repeat a call that the service itself has answered.
const serviceConfig = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
  "initialBackoff": "0.02s", "maxBackoff": "0.5s", "backoffMultiplier": 3,
  "retryableStatusCodes": ["UNAVAILABLE"]}},
  {"name": [{"service": "trivium.v1.AdminService", "method": "CreateKey"}]}]}`

// Client is a connection to the service for one tenant. It may be used by several goroutines.
//
// Each call ends at the deadline of its context, or after the client's timeout if the context has
// none. An error of a call is an *Error; errors.Is finds context.DeadlineExceeded and context.Canceled
// in it.
type Client struct {
	// Retrieval, Ingestion, Catalog and Admin are the generated clients, for all other calls and
	// options. Their errors are those of gRPC; AsError converts them.
	Retrieval triviumv1.RetrievalServiceClient
	Ingestion triviumv1.IngestServiceClient
	Catalog   triviumv1.CatalogServiceClient
	Admin     triviumv1.AdminServiceClient

	tenant     string
	connection *grpc.ClientConn
	options    options
}

type options struct {
	timeout      time.Duration
	writeTimeout time.Duration
	transport    credentials.TransportCredentials
	token        func(context.Context) (string, error)
	clearToken   bool
	dial         []grpc.DialOption
}

// Option configures a client.
type Option func(*options)

// WithTLS encrypts the connection. Without it the connection is not encrypted.
func WithTLS(config *tls.Config) Option {
	return func(its *options) { its.transport = credentials.NewTLS(config) }
}

// WithToken sends a bearer token with each call, over TLS or to this machine: a Unix socket,
// localhost, 127.0.0.0/8 or ::1.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks for the bearer token before each call, for tokens that expire.
func WithTokenSource(token func(context.Context) (string, error)) Option {
	return func(its *options) { its.token = token }
}

// WithTokenWithoutTLS sends the token to another machine although the client does not encrypt,
// because something on the way does, such as the sidecar of a service mesh.
func WithTokenWithoutTLS() Option {
	return func(its *options) { its.clearToken = true }
}

// WithTimeouts sets the time limits of reads and writes whose context has no deadline.
func WithTimeouts(read, write time.Duration) Option {
	return func(its *options) { its.timeout, its.writeTimeout = read, write }
}

// WithDialOptions adds options of gRPC.
func WithDialOptions(dial ...grpc.DialOption) Option {
	return func(its *options) { its.dial = append(its.dial, dial...) }
}

// ErrClearText is returned by New if a token would be sent to another machine without encryption.
var ErrClearText = errors.New("a token is not sent in clear text: add WithTLS, or " +
	"WithTokenWithoutTLS if something on the way encrypts, such as a sidecar")

// New returns a client for a tenant. It connects at the first call. A token needs WithTLS, unless
// the target is this machine.
func New(target, tenant string, configured ...Option) (*Client, error) {
	its := options{
		timeout:      DefaultTimeout,
		writeTimeout: DefaultWriteTimeout,
		transport:    insecure.NewCredentials(),
	}
	for _, configure := range configured {
		configure(&its)
	}
	clear := its.transport.Info().SecurityProtocol == "insecure"
	if its.token != nil && clear && !its.clearToken && !isOnThisMachine(target) {
		return nil, fmt.Errorf("%s: %w", target, ErrClearText)
	}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(its.transport),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
		grpc.WithChainUnaryInterceptor(its.authorizeUnary),
		grpc.WithChainStreamInterceptor(its.authorizeStream),
	}, its.dial...)
	connection, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, err
	}
	return &Client{
		Retrieval:  triviumv1.NewRetrievalServiceClient(connection),
		Ingestion:  triviumv1.NewIngestServiceClient(connection),
		Catalog:    triviumv1.NewCatalogServiceClient(connection),
		Admin:      triviumv1.NewAdminServiceClient(connection),
		tenant:     tenant,
		connection: connection,
		options:    its,
	}, nil
}

// Close ends the connection.
func (client *Client) Close() error {
	return client.connection.Close()
}

// Retrieve finds the items worth putting into a prompt.
//
// The request may be nil, and stays as it is: a copy gets the query, the tenant unless it has
// Tenants, and, unless it has one, nine tenths of the time that is left as its TimeBudget, so that the answer arrives before
// the deadline.
func (client *Client) Retrieve(
	ctx context.Context, query string, request *triviumv1.RetrieveRequest,
) (*triviumv1.RetrieveResponse, error) {
	ctx, cancel := within(ctx, client.options.timeout)
	defer cancel()
	sent := &triviumv1.RetrieveRequest{}
	if request != nil {
		sent = proto.CloneOf(request)
	}
	sent.Query = query
	if len(sent.Tenants) == 0 {
		sent.Tenant = client.tenant
	}
	if sent.TimeBudget == nil {
		deadline, _ := ctx.Deadline()
		sent.TimeBudget = durationpb.New(max(time.Until(deadline)*9/10, time.Millisecond))
	}
	response, err := client.Retrieval.Retrieve(ctx, sent)
	return response, AsError(err)
}

// Briefing returns the memory block for a prompt; "" if nothing was found.
func (client *Client) Briefing(
	ctx context.Context, query string, options *triviumv1.BriefingOptions,
) (string, error) {
	if options == nil {
		options = &triviumv1.BriefingOptions{}
	}
	response, err := client.Retrieve(ctx, query, &triviumv1.RetrieveRequest{Briefing: options})
	return response.GetBriefing(), err
}

// Ingest stores the items of Segment and Fact in one transaction.
func (client *Client) Ingest(
	ctx context.Context, items ...*triviumv1.IngestItem,
) (*triviumv1.IngestResponse, error) {
	ctx, cancel := within(ctx, client.options.writeTimeout)
	defer cancel()
	response, err := client.Ingestion.Ingest(
		ctx, &triviumv1.IngestRequest{Tenant: client.tenant, Items: items})
	return response, AsError(err)
}

// Patch changes some fields of a stored item. The request stays as it is: a copy gets the tenant.
func (client *Client) Patch(
	ctx context.Context, request *triviumv1.PatchRequest,
) (*triviumv1.PatchResponse, error) {
	ctx, cancel := within(ctx, client.options.writeTimeout)
	defer cancel()
	sent := proto.CloneOf(request)
	sent.Tenant = client.tenant
	response, err := client.Ingestion.Patch(ctx, sent)
	return response, AsError(err)
}

// Forget erases items from every store. The request stays as it is: a copy gets the tenant.
func (client *Client) Forget(
	ctx context.Context, request *triviumv1.ForgetRequest,
) (*triviumv1.ForgetResponse, error) {
	ctx, cancel := within(ctx, client.options.writeTimeout)
	defer cancel()
	sent := proto.CloneOf(request)
	sent.Tenant = client.tenant
	response, err := client.Ingestion.Forget(ctx, sent)
	return response, AsError(err)
}

// Stats returns item counts, the lag of each projection, and the configuration of the service.
func (client *Client) Stats(ctx context.Context) (*triviumv1.GetStatsResponse, error) {
	ctx, cancel := within(ctx, client.options.timeout)
	defer cancel()
	response, err := client.Catalog.GetStats(ctx, &triviumv1.GetStatsRequest{Tenant: client.tenant})
	return response, AsError(err)
}

// Segment returns the item that stores a text.
func Segment(segment *triviumv1.Segment) *triviumv1.IngestItem {
	return &triviumv1.IngestItem{Item: &triviumv1.IngestItem_Segment{Segment: segment}}
}

// Fact returns the item that stores a relation.
func Fact(fact *triviumv1.Fact) *triviumv1.IngestItem {
	return &triviumv1.IngestItem{Item: &triviumv1.IngestItem_Fact{Fact: fact}}
}

func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, set := ctx.Deadline(); set {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}

// isOnThisMachine says whether a target of gRPC is a Unix socket or on loopback.
func isOnThisMachine(target string) bool {
	if strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:") {
		return true
	}
	target = strings.TrimPrefix(strings.TrimPrefix(target, "dns:///"), "passthrough:///")
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

func (its options) authorized(ctx context.Context) (context.Context, error) {
	if its.token == nil {
		return ctx, nil
	}
	token, err := its.token(ctx)
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), nil
}

func (its options) authorizeUnary(
	ctx context.Context, method string, request, response any, connection *grpc.ClientConn,
	invoke grpc.UnaryInvoker, call ...grpc.CallOption,
) error {
	ctx, err := its.authorized(ctx)
	if err != nil {
		return err
	}
	return invoke(ctx, method, request, response, connection, call...)
}

func (its options) authorizeStream(
	ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
	open grpc.Streamer, call ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx, err := its.authorized(ctx)
	if err != nil {
		return nil, err
	}
	return open(ctx, description, connection, method, call...)
}
