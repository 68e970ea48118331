package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// TestListenersWaitTogether: a worker that is silent when it should take subscriptions
// holds up those who come at once for the time of one.
func TestListenersWaitTogether(t *testing.T) {
	const one = 5 * time.Second
	for era, answers := range map[string]map[string]string{
		"legacy": {"server/discover": isError, "initialize": strings.Replace(isLegacy, `{}`, `{"resources":{"subscribe":true}}`, 1), "resources/subscribe": ""},
		"modern": {"server/discover": strings.Replace(isModern, `{}`, `{"resources":{"subscribe":true}}`, 1), "subscriptions/listen": ""},
	} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			script := &scripted{answer: func(method, id string) string {
				answer, listed := answers[method]
				if !listed {
					answer = isResult
				}
				return strings.ReplaceAll(answer, "%s", id)
			}}
			w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: script.run, InMemory: true})
			s := w.modern(alice)
			var all sync.WaitGroup
			began := time.Now()
			for n := range 4 {
				all.Go(func() {
					filter := fmt.Sprintf(`,"notifications":{"resourceSubscriptions":["file:///%d"]}`, n)
					x, err := s.BeginModern(context.Background(), parse(t, modernCall("1", "subscriptions/listen", "{}", filter)), session.ModeStream)
					if err != nil {
						t.Error(err)
						return
					}
					defer x.Close()
					item, err := x.Next(context.Background(), one)
					if err != nil || strings.Contains(string(item.Bytes), "file:///") {
						t.Errorf("%s, %v: want no resource acknowledged", item.Bytes, err)
					}
				})
			}
			all.Wait()
			if took := time.Since(began); took < one || took >= 2*one {
				t.Errorf("took %v, want the time of one (%v)", took, one)
			}
		})
	}
}
