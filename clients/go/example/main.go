// Stores a turn and asks for it: go run ./example [ADDRESS]
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	trivium "trivium.dev/go"
	triviumv1 "trivium.dev/go/v1"
)

func main() {
	target := "127.0.0.1:9000"
	if len(os.Args) > 1 {
		target = os.Args[1]
	}
	memory, err := trivium.New(target, "go-example")
	if err != nil {
		log.Fatal(err)
	}
	defer memory.Close()
	ctx := context.Background()
	written, err := memory.Ingest(ctx, trivium.Segment(&triviumv1.Segment{
		Id: "t1", Speaker: "Mara", Text: "We moved to Lisbon in May.",
	}))
	if err != nil {
		log.Fatal(err)
	}
	found, err := memory.Retrieve(ctx, "Where did they move?", &triviumv1.RetrieveRequest{
		ConsistencyToken: written.GetConsistencyToken(),
		Briefing:         &triviumv1.BriefingOptions{},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, hit := range found.GetHits() {
		fmt.Printf("%d %.3f %s\n", hit.GetRank(), hit.GetScore(), hit.GetSegment().GetText())
	}
	fmt.Println(found.GetBriefing())
}
