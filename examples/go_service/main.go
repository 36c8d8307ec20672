// A service that answers with what a memory knows: go run . [ADDRESS OF TRIVIUM]
//
//	curl -X POST "localhost:8090/turns?user=mara" -d "We moved to Lisbon in May."
//	curl "localhost:8090/context?user=mara&question=Where+did+they+move"
//
// Each user is a tenant of their own. What it returns belongs into the prompt of a language model.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	trivium "trivium.dev/go"
	triviumv1 "trivium.dev/go/v1"
)

const (
	maxTurn = 32 << 10
	recall  = 2 * time.Second
)

var errRejected = errors.New("rejected")

// service keeps a client, and the token of each user's last turn: a question then waits for it.
type service struct {
	address string
	mutex   sync.Mutex
	memory  map[string]*trivium.Client
	tokens  map[string]string
}

// of returns the memory of a user, whose client is made once, and the token of the last turn.
func (s *service) of(user string) (*trivium.Client, string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.memory[user] == nil {
		memory, err := trivium.New(s.address, user)
		if err != nil {
			return nil, "", err
		}
		s.memory[user] = memory
	}
	return s.memory[user], s.tokens[user], nil
}

// storeTurn keeps what a user has said. The same text is stored once.
func (s *service) storeTurn(ctx context.Context, user, text string) error {
	memory, _, err := s.of(user)
	if err != nil {
		return err
	}
	written, err := memory.Ingest(ctx, trivium.Segment(&triviumv1.Segment{
		Id:        fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16],
		Speaker:   user,
		Text:      text,
		EventTime: timestamppb.Now(),
	}))
	if err != nil {
		return err
	}
	if outcome := written.GetOutcomes()[0]; outcome.GetState() == triviumv1.ItemState_ITEM_STATE_REJECTED {
		return fmt.Errorf("%w: %v", errRejected, outcome.GetViolations())
	}
	s.mutex.Lock()
	s.tokens[user] = written.GetConsistencyToken()
	s.mutex.Unlock()
	return nil
}

// context returns the block for the prompt; it is empty if nothing helps.
func (s *service) context(ctx context.Context, user, question string) (string, error) {
	memory, token, err := s.of(user)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, recall)
	defer cancel()
	found, err := memory.Retrieve(ctx, question, &triviumv1.RetrieveRequest{
		ConsistencyToken: token,
		Briefing:         &triviumv1.BriefingOptions{},
	})
	return found.GetBriefing(), err
}

func (s *service) handler() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /turns", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTurn))
		if err == nil {
			err = s.storeTurn(r.Context(), r.URL.Query().Get("user"), string(text))
		}
		answer(w, "stored\n", err)
	})
	routes.HandleFunc("GET /context", func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Query()
		block, err := s.context(r.Context(), asked.Get("user"), asked.Get("question"))
		answer(w, block, err)
	})
	return routes
}

// answer says whose fault an error is: the caller's, or that of the memory.
func answer(w http.ResponseWriter, text string, err error) {
	var refused *trivium.Error
	switch {
	case err == nil:
		fmt.Fprint(w, text)
	case errors.Is(err, errRejected), errors.As(err, &refused) && len(refused.Violations) > 0:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func main() {
	address, listen := "127.0.0.1:9000", "127.0.0.1:8090"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if len(os.Args) > 2 {
		listen = os.Args[2]
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	s := &service{
		address: address,
		memory:  map[string]*trivium.Client{},
		tokens:  map[string]string{},
	}
	log.Fatal(http.Serve(listener, s.handler()))
}
