package natstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shoal-go/shoal"
	shoalnats "github.com/shoal-go/shoal/contrib/nats"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

func open(t testing.TB, nc *nats.Conn, name string, opts ...shoalnats.Option) *shoalnats.Queue {
	t.Helper()
	q, err := shoalnats.Open(context.Background(), nc, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestTheQueuePassesTheSuite(t *testing.T) {
	const lease = 6 * time.Second // a machine may stand still for a second or two
	s := start(t, t.TempDir())
	var n atomic.Int64
	jobstest.Run(t, func(t *testing.T) jobstest.Subject {
		name := fmt.Sprint("q", n.Add(1))
		q := open(t, connect(t, s), name, shoalnats.WithLease(lease))
		return jobstest.Subject{
			Sink: q,
			Consumer: func(t testing.TB) jobs.Source {
				return open(t, connect(t, s), name, shoalnats.WithLease(lease), shoalnats.WithExisting())
			},
			Dead: func(t testing.TB) []jobs.DeadLetter {
				all, err := q.DeadLetters(context.Background(), jobs.DeadFilter{})
				if err != nil {
					t.Error(err)
				}
				return all
			},
			Largest:        1 << 20,
			CountsReleased: true,
		}
	})
}

// TestALeaseBeginsWithTheDelivery: and not when the job is read, as by a process that was
// stopped in between.
func TestALeaseBeginsWithTheDelivery(t *testing.T) {
	s := start(t, t.TempDir(), withListen("127.0.0.1:0"))
	late := newSlowLink(t, strings.TrimPrefix(s.URL(), "nats://"))
	nc, err := nats.Connect("nats://" + late.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const lease = 1500 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	near := open(t, connect(t, s), "q", shoalnats.WithLease(lease))
	far := open(t, nc, "q", shoalnats.WithLease(lease))
	for _, waits := range []bool{true, false} {
		got := make(chan jobs.Delivery, 1)
		pull := func() {
			ds, err := far.Pull(ctx, 2)
			if err != nil || len(ds) != 1 {
				t.Errorf("%d jobs, %v", len(ds), err)
				ds = append(ds, nil)
			}
			got <- ds[0]
		}
		if waits {
			go pull()
			time.Sleep(2 * lease) // it has waited for longer than a lease
			late.stop()
		}
		if err := near.Enqueue(ctx, jobs.Message{}); err != nil {
			t.Fatal(err)
		}
		if !waits {
			time.Sleep(lease / 3) // the server hears of it a moment later where it leases jobs
			late.stop()
			go pull()
		}
		time.Sleep(lease + 100*time.Millisecond)
		late.goOn()
		d := <-got
		if d == nil {
			return
		}
		if d.Attempt() < 2 {
			t.Errorf("attempt %d when its lease was over (Pull was waiting: %v)", d.Attempt(), waits)
		}
		if err := d.Ack(ctx); err != nil {
			t.Error(err)
		}
	}
}

// A slowLink is between a client and a server, and can hold up what the server sends, or
// be cut.
type slowLink struct {
	addr   string
	gate   sync.Mutex
	mu     sync.Mutex
	away   bool     // it is cut
	client net.Conn // the latest
}

func (l *slowLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
	l.client.Close()
}

func (l *slowLink) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}

func (l *slowLink) stop() { l.gate.Lock() }
func (l *slowLink) goOn() { l.gate.Unlock() }

func newSlowLink(t *testing.T, server string) *slowLink {
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	l := &slowLink{addr: in.Addr().String()}
	go func() {
		for {
			client, err := in.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			away := l.away
			l.client = client
			l.mu.Unlock()
			server, err := net.Dial("tcp", server)
			if err == nil && away {
				server.Close()
			}
			if err != nil || away {
				client.Close()
				continue
			}
			go func() { io.Copy(server, client); server.Close() }()
			go func() {
				defer client.Close()
				b := make([]byte, 1<<16)
				for {
					n, err := server.Read(b)
					l.gate.Lock()
					_, e := client.Write(b[:n])
					l.gate.Unlock()
					if err != nil || e != nil {
						return
					}
				}
			}()
		}
	}()
	return l
}

// TestThereIsRoomForADeadLetter: of the largest jobs, also where another client has enqueued them.
func TestThereIsRoomForADeadLetter(t *testing.T) {
	const most = 16 << 10
	nc := connect(t, start(t, t.TempDir(), withMaxPayload(most)))
	q := open(t, nc, "q")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	reason := strings.Repeat("\x01", 1<<10) // six times as long, quoted
	bury := func(what string) jobs.DeadLetter {
		t.Helper()
		ds, err := q.Pull(ctx, 1)
		if err != nil || len(ds) != 1 {
			t.Fatalf("%s: %d jobs, %v", what, len(ds), err)
		}
		if err := ds[0].Term(ctx, reason); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		all, err := q.DeadLetters(ctx, jobs.DeadFilter{})
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %v", what, err)
		}
		return all[len(all)-1]
	}
	n := most
	for err = q.Enqueue(ctx, jobs.Message{Data: make([]byte, n)}); errors.Is(err, nats.ErrMaxPayload); n-- {
		err = q.Enqueue(ctx, jobs.Message{ID: "ours", Data: make([]byte, n), Header: jobs.Header{"k": "v"}})
	}
	if err != nil || n < most-300 {
		t.Fatalf("%d bytes: %v", n, err)
	}
	if l := bury("ours"); l.ID != "ours" || len(l.Data) != n+1 || l.Header["k"] != "v" || l.Attempt != 1 {
		t.Errorf("ID %q, %d of %d bytes, %v, attempt %d", l.ID, len(l.Data), n+1, l.Header, l.Attempt)
	}
	for what, m := range map[string]*nats.Msg{
		"payload": {Data: make([]byte, most)},
		"header":  {Header: nats.Header{"Big": {strings.Repeat("x", most-100)}}},
		"ID":      {Header: nats.Header{nats.MsgIdHdr: {strings.Repeat("x", most-100)}}},
	} {
		m.Subject = "shoal.q.now"
		if _, err := js.PublishMsg(ctx, m); err != nil {
			t.Fatal(err)
		}
		if l := bury(what); l.ID == "" || len(l.Data) != 0 || !strings.HasPrefix(l.Reason, reason) || !strings.Contains(l.Reason, fmt.Sprint("payload of ", len(m.Data), " bytes")) {
			t.Errorf("%s: ID %.20q, %d bytes, reason %.2000q", what, l.ID, len(l.Data), l.Reason)
		}
	}
	// Those that lack a part of their job stay where they are.
	if n, err := q.RetryDead(ctx, jobs.DeadFilter{}); n != 1 || err == nil || !strings.Contains(err.Error(), "lacks a part of its job") {
		t.Errorf("%d were retried, %v", n, err)
	}
	ds, err := q.Pull(ctx, 10)
	if err != nil || len(ds) != 1 || ds[0].ID() != "ours" || len(ds[0].Data()) != n+1 || ds[0].Header()["k"] != "v" {
		t.Errorf("%d jobs, %v", len(ds), err)
	}
	if n, err := q.DeleteDead(ctx, jobs.DeadFilter{}); n != 3 || err != nil {
		t.Errorf("%d were deleted, %v", n, err)
	}
}

// TestPullIsBoundedInBytes: what it leases has to arrive within a lease.
func TestPullIsBoundedInBytes(t *testing.T) {
	q := open(t, connect(t, start(t, t.TempDir(), withMaxPayload(16<<20))), "q")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, size := range []int{12 << 20, 3 << 20, 3 << 20, 3 << 20, 1} {
		if err := q.Enqueue(ctx, jobs.Message{Data: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{1, 2, 2} {
		ds, err := q.Pull(ctx, 10)
		if err != nil || len(ds) != want {
			t.Fatalf("%d jobs, %v; want %d", len(ds), err, want)
		}
		for _, d := range ds {
			if err := d.Ack(ctx); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestPullIsBoundedInJobs: however many are asked for.
func TestPullIsBoundedInJobs(t *testing.T) {
	const n, most = 1500, 1000
	q := open(t, connect(t, start(t, t.TempDir(), withoutSync())), "q", shoalnats.WithMemory())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := q.Enqueue(ctx, make([]jobs.Message, n)...); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < n; {
		ds, err := q.Pull(ctx, math.MaxInt)
		if err != nil || len(ds) > most {
			t.Fatalf("%d jobs, %v", len(ds), err)
		}
		got += len(ds)
	}
}

// TestALimitOfPulls: a bound on a request holds for the next one too, and one on how many wait
// does not.
func TestALimitOfPulls(t *testing.T) {
	nc := connect(t, start(t, t.TempDir()))
	q := open(t, nc, "q")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// The server says the first only when thousands wait, so the test answers in its place.
	if err := js.DeleteConsumer(ctx, "SHOAL_q", "workers"); err != nil {
		t.Fatal(err)
	}
	var says atomic.Pointer[string]
	if _, err := nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.SHOAL_q.workers", func(m *nats.Msg) {
		if err := m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"409"}, "Description": {*says.Load()}}}); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for text, permanent := range map[string]bool{
		"Exceeded MaxWaiting":                   false,
		"Exceeded MaxRequestBatch of 1":         true,
		"Exceeded MaxRequestExpires of 1s":      true,
		"Exceeded MaxRequestMaxBytes of 100000": true,
	} {
		says.Store(&text)
		if _, err := q.Pull(ctx, 2); err == nil || !strings.Contains(err.Error(), text) || jobs.IsPermanent(err) != permanent {
			t.Errorf("permanent: %v, and it is to be %v: %v", jobs.IsPermanent(err), permanent, err)
		}
	}
}

// A lateContext is found to have ended at the second look.
type lateContext struct {
	context.Context
	looks int
}

func (c *lateContext) Err() error {
	if c.looks++; c.looks == 1 {
		return nil
	}
	return context.Canceled
}

// What is asked of a job beside its Ack is told that the job is acknowledged, and at no moment that the lease
// was lost.
func TestExtendsBesideAnAck(t *testing.T) {
	s := start(t, t.TempDir())
	q := open(t, connect(t, s), "beside")
	bg, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const n = 100
	for range n {
		if err := q.Enqueue(bg, jobs.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		ds, err := q.Pull(bg, 1)
		if err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				err := error(nil)
				for err == nil || errors.Is(err, context.Canceled) { // it was not acknowledged yet
					err = ds[0].Extend(&lateContext{Context: bg})
				}
				if !errors.Is(err, jobs.ErrAcked) {
					t.Errorf("Extend beside Ack: %v", err)
				}
			})
		}
		if err := ds[0].Ack(bg); err != nil {
			t.Fatal(err)
		}
		calls.Wait()
	}
}

// TestAnExtendThatIsAnsweredTooLate: by then the job may be leased to another machine.
func TestAnExtendThatIsAnsweredTooLate(t *testing.T) {
	s := start(t, t.TempDir(), withListen("127.0.0.1:0"))
	link := newSlowLink(t, strings.TrimPrefix(s.URL(), "nats://"))
	nc, err := nats.Connect("nats://" + link.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const lease = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	near := open(t, connect(t, s), "q", shoalnats.WithLease(lease))
	far := open(t, nc, "q", shoalnats.WithLease(lease))
	if err := near.Enqueue(ctx, jobs.Message{}); err != nil {
		t.Fatal(err)
	}
	ds, err := far.Pull(ctx, 1)
	if err != nil || len(ds) != 1 {
		t.Fatalf("%d jobs, %v", len(ds), err)
	}
	link.stop() // the server hears the request, and its answer has to wait
	extended := make(chan error, 1)
	go func() { extended <- ds[0].Extend(ctx) }()
	again, err := near.Pull(ctx, 1)
	link.goOn()
	if err != nil || len(again) != 1 {
		t.Fatalf("%d jobs, %v", len(again), err)
	}
	if err := <-extended; !errors.Is(err, jobs.ErrLeaseLost) {
		t.Errorf("Extend of a job that is leased to another machine: %v", err)
	}
}

// TestAnAnswerWaitsForNoConnection: it would be sent when that is back, and count for the
// attempt that runs then.
func TestAnAnswerWaitsForNoConnection(t *testing.T) {
	s := start(t, t.TempDir(), withListen("127.0.0.1:0"))
	link := newSlowLink(t, strings.TrimPrefix(s.URL(), "nats://"))
	away := make(chan struct{}, 1)
	nc, err := nats.Connect("nats://"+link.addr, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.IgnoreDiscoveredServers(), nats.DisconnectErrHandler(func(*nats.Conn, error) { away <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const lease = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	near := open(t, connect(t, s), "q", shoalnats.WithLease(lease))
	far := open(t, nc, "q", shoalnats.WithLease(lease))
	if err := near.Enqueue(ctx, jobs.Message{}); err != nil {
		t.Fatal(err)
	}
	ds, err := far.Pull(ctx, 1)
	if err != nil || len(ds) != 1 {
		t.Fatalf("%d jobs, %v", len(ds), err)
	}
	link.cut()
	<-away
	short, cancel := context.WithTimeout(ctx, lease/4)
	defer cancel()
	if err := ds[0].Ack(short); err == nil {
		t.Error("Ack without a connection: no error")
	}
	again, err := near.Pull(ctx, 1)
	if err != nil || len(again) != 1 {
		t.Fatalf("%d jobs, %v", len(again), err)
	}
	link.mend()
	for nc.Status() != nats.CONNECTED {
		time.Sleep(10 * time.Millisecond)
	}
	if err := nc.FlushTimeout(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	// The second attempt dies: the job is there again, if the old answer has not ended it.
	if ds, err := near.Pull(ctx, 1); err != nil || len(ds) != 1 || ds[0].Attempt() < 3 {
		t.Errorf("%d jobs, %v", len(ds), err)
	}
}

// TestAPullEndsWithoutAConnection: it ends with its context, and does not wait for the connection,
// which does not come back.
func TestAPullEndsWithoutAConnection(t *testing.T) {
	s := start(t, t.TempDir(), withListen("127.0.0.1:0"))
	link := newSlowLink(t, strings.TrimPrefix(s.URL(), "nats://"))
	away := make(chan struct{}, 1)
	nc, err := nats.Connect("nats://"+link.addr, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(time.Hour),
		nats.IgnoreDiscoveredServers(), nats.DisconnectErrHandler(func(*nats.Conn, error) { away <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	q := open(t, nc, "q")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pulled := make(chan error, 1)
	go func() {
		_, err := q.Pull(ctx, 1)
		pulled <- err
	}()
	js, err := jetstream.New(connect(t, s))
	if err != nil {
		t.Fatal(err)
	}
	workers, err := js.Consumer(ctx, "SHOAL_q", "workers")
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for workers.CachedInfo().NumWaiting == 0 { // pulls
		if time.Now().After(deadline) {
			t.Fatal("the Pull does not ask")
		}
		time.Sleep(10 * time.Millisecond)
		if _, err := workers.Info(ctx); err != nil {
			t.Fatal(err)
		}
	}
	link.cut()
	<-away
	subs := nc.NumSubscriptions()
	ended := time.Now()
	cancel()
	if err := <-pulled; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if d := time.Since(ended); d >= 5*time.Second { // as long as a flush would wait
		t.Errorf("Pull returned %v after the end of its context", d)
	}
	if n := nc.NumSubscriptions(); n != subs-1 {
		t.Errorf("%d subscriptions, %d while Pull waited: want one less", n, subs)
	}
}

// TestEnqueueOfMany: more than the client has under way at once, and by several calls.
func TestEnqueueOfMany(t *testing.T) {
	const calls, each = 4, 3000
	s := start(t, t.TempDir(), withoutSync())
	nc := connect(t, s)
	q := open(t, nc, "q", shoalnats.WithMemory())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for c := range calls {
		wg.Go(func() {
			ms := make([]jobs.Message, each)
			for i := range ms {
				ms[i].Data = fmt.Appendf(nil, "%d %d", c, i)
			}
			if err := q.Enqueue(ctx, ms...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var next [calls]int // of each call, as its messages keep their order
	for range calls * each {
		ds, err := q.Pull(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		var c, i int
		fmt.Sscan(string(ds[0].Data()), &c, &i)
		if i != next[c] {
			t.Fatalf("message %d of call %d came when %d was due", i, c, next[c])
		}
		next[c]++
	}
}

// TestEnqueueEndsWithItsContext: with a part confirmed, and another call goes on.
func TestEnqueueEndsWithItsContext(t *testing.T) {
	q := open(t, connect(t, start(t, t.TempDir(), withoutSync())), "q", shoalnats.WithMemory())
	ms := make([]jobs.Message, 200_000)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := q.Enqueue(ctx, ms...)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "of 200000 messages are confirmed") {
		t.Errorf("%v", err)
	}
	if err := q.Enqueue(context.Background(), make([]jobs.Message, 5000)...); err != nil {
		t.Error(err)
	}
}

// TestADelayForEver: it is not so long that it is none.
func TestADelayForEver(t *testing.T) {
	q := open(t, connect(t, start(t, t.TempDir())), "q", shoalnats.WithLease(2*time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := q.Enqueue(ctx, jobs.Message{ID: "later", Delay: math.MaxInt64}, jobs.Message{ID: "back"}); err != nil {
		t.Fatal(err)
	}
	ds, err := q.Pull(ctx, 5)
	if err != nil || len(ds) != 1 || ds[0].ID() != "back" {
		t.Fatalf("%d jobs, %v", len(ds), err)
	}
	if err := ds[0].Nak(ctx, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if ds, _ := q.Pull(short, 5); len(ds) > 0 {
		t.Errorf("job %q is there", ds[0].ID())
	}
}

// TestAPlaceThatIsNone: what is not written like the Place of a dead letter is an error, and selects
// nothing. After the greatest number there would be 0, and so all.
func TestAPlaceThatIsNone(t *testing.T) {
	q := open(t, connect(t, start(t, t.TempDir())), "q")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := q.Enqueue(ctx, jobs.Message{}); err != nil {
		t.Fatal(err)
	}
	l := bury(ctx, t, q, "bad")
	for _, after := range []string{"18446744073709551615", "18446744073709551616", "007", "0", "+1", "-1", " 1"} {
		for _, newest := range []bool{false, true} {
			f := jobs.DeadFilter{After: after, Newest: newest}
			all, err := q.DeadLetters(ctx, f)
			if len(all) > 0 || !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), strconv.Quote(after)) {
				t.Errorf("%+v: %d dead letters, %v", f, len(all), err)
			}
			if n, err := q.DeleteDead(ctx, f); n > 0 || !errors.Is(err, jobs.ErrConfig) {
				t.Errorf("%+v: %d were deleted, %v", f, n, err)
			}
			if n, err := q.RetryDead(ctx, f); n > 0 || !errors.Is(err, jobs.ErrConfig) {
				t.Errorf("%+v: %d were retried, %v", f, n, err)
			}
		}
	}
	if all, err := q.DeadLetters(ctx, jobs.DeadFilter{}); err != nil || len(all) != 1 || all[0].Place != l.Place {
		t.Errorf("%d dead letters are left, %v", len(all), err)
	}
	last := jobs.DeadFilter{After: "18446744073709551614"}
	if all, err := q.DeadLetters(ctx, last); err != nil || len(all) > 0 {
		t.Errorf("after a place far away: %d, %v", len(all), err)
	}
	last.Newest = true
	if all, err := q.DeadLetters(ctx, last); err != nil || len(all) != 1 {
		t.Errorf("before a place far away: %d, %v", len(all), err)
	}
}

// TestTheNewestDeadLettersBehindAGap: however many are gone, they are found soon, and none is left out.
func TestTheNewestDeadLettersBehindAGap(t *testing.T) {
	nc := connect(t, start(t, t.TempDir()))
	q := open(t, nc, "q")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const n = 300
	ms := make([]jobs.Message, n)
	for i := range ms {
		ms[i].ID = fmt.Sprint(i)
	}
	if err := q.Enqueue(ctx, ms...); err != nil {
		t.Fatal(err)
	}
	for buried := 0; buried < n; {
		ds, err := q.Pull(ctx, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			if err := d.Term(ctx, "bad"); err != nil {
				t.Fatal(err)
			}
		}
		buried += len(ds)
	}
	all, err := q.DeadLetters(ctx, jobs.DeadFilter{})
	if err != nil || len(all) != n {
		t.Fatalf("%d dead letters, %v", len(all), err)
	}
	keep := []int{0, 1, 7, 150, 290}
	for {
		var gone []string
		for i, l := range all {
			if !slices.Contains(keep, i) {
				gone = append(gone, l.ID)
			}
		}
		if _, err := q.DeleteDead(ctx, jobs.DeadFilter{IDs: gone}); err != nil {
			t.Fatal(err)
		}
		before := nc.Stats().OutMsgs
		left, err := q.DeadLetters(ctx, jobs.DeadFilter{Newest: true})
		if err != nil || len(left) != len(keep) {
			t.Fatalf("%d of %d dead letters, %v", len(left), len(keep), err)
		}
		for i, l := range left {
			if want := all[keep[len(keep)-1-i]]; l.Place != want.Place {
				t.Errorf("number %d is at %s, want %s", i, l.Place, want.Place)
			}
		}
		if n := nc.Stats().OutMsgs - before; n > 150 {
			t.Errorf("%d dead letters took %d messages", len(keep), n)
		}
		if len(keep) == 1 {
			return
		}
		keep = keep[:len(keep)-1]
	}
}

// TestAJobIsNoStatus: whatever headers it has.
func TestAJobIsNoStatus(t *testing.T) {
	q := open(t, connect(t, start(t, t.TempDir())), "q")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, code := range []string{"100", "404", "409", "503"} {
		for _, before := range []bool{true, false} { // Pull has asked for it
			put := func() {
				if err := q.Enqueue(ctx, jobs.Message{ID: code + fmt.Sprint(before), Header: jobs.Header{"Status": code}}); err != nil {
					t.Error(err)
				}
			}
			if before {
				put()
			} else {
				time.AfterFunc(100*time.Millisecond, put)
			}
			ds, err := q.Pull(ctx, 1)
			if err != nil || len(ds) != 1 || ds[0].Header()["Status"] != code || ds[0].Attempt() != 1 {
				t.Fatalf("status %s: %d jobs, %v", code, len(ds), err)
			}
			if err := ds[0].Ack(ctx); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWhatIsConfirmedIsThereAfterARestart(t *testing.T) {
	const lease = 4 * time.Second // a machine may stand still for a second or two
	dir := t.TempDir()
	ctx := context.Background()
	s := start(t, dir)
	nc := connect(t, s)
	q := open(t, nc, "mail", shoalnats.WithLease(lease))
	for i := range 20 {
		if err := q.Enqueue(ctx, jobs.Message{ID: fmt.Sprint(i), Data: []byte("x"), Delay: time.Duration(i%2) * 2 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	leased, err := q.Pull(ctx, 3) // and not acknowledged
	if err != nil || len(leased) != 3 {
		t.Fatalf("%d, %v", len(leased), err)
	}
	if err := leased[0].Ack(ctx); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	s.Close()
	s = start(t, dir)
	q = open(t, connect(t, s), "mail", shoalnats.WithLease(lease), shoalnats.WithExisting())
	seen := make(map[string]int)
	short, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for len(seen) < 19 {
		ds, err := q.Pull(short, 100)
		if err != nil {
			t.Fatalf("%v; %d of 19 jobs", err, len(seen))
		}
		for _, d := range ds {
			seen[d.ID()]++
			if err := d.Ack(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	if seen["0"] != 0 {
		t.Error("what was acknowledged came again")
	}
}

func TestServeOutlivesTheServer(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := start(t, dir, withListen("127.0.0.1:0"))
	url := s.URL()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	q := open(t, nc, "mail", shoalnats.WithLease(2*time.Second))
	const n = 50
	var ran [n]atomic.Int64
	var all sync.WaitGroup
	all.Add(n)
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer p.Close()
	served := make(chan error, 1)
	go func() {
		served <- jobs.Serve(ctx, p, q, func(ctx context.Context, j *jobs.Job) error {
			var i int
			fmt.Sscan(string(j.Data), &i)
			if ran[i].Add(1) == 1 {
				all.Done()
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		})
	}()
	put := func(from, to int) {
		for i := from; i < to; i++ {
			m := jobs.Message{ID: fmt.Sprint(i), Data: fmt.Appendf(nil, "%d", i)}
			for q.Enqueue(ctx, m) != nil { // until it is confirmed: the ID makes that safe
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
	put(0, 20)
	s.Close() // with jobs under way
	again := make(chan *natsServer, 1)
	go func() {
		time.Sleep(time.Second)
		s, err := startServer(dir, withListen(strings.TrimPrefix(url, "nats://")))
		if err != nil {
			t.Error(err)
		}
		again <- s
	}()
	put(20, n)
	all.Wait()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if s := <-again; s != nil {
		s.Close()
	}
}

func TestOpenRefusesBadInput(t *testing.T) {
	nc := connect(t, start(t, t.TempDir()))
	ctx := context.Background()
	var none context.Context
	for want, f := range map[string]func() (*shoalnats.Queue, error){
		"nil context":    func() (*shoalnats.Queue, error) { return shoalnats.Open(none, nc, "q") },
		"nil connection": func() (*shoalnats.Queue, error) { return shoalnats.Open(ctx, nil, "q") },
		`the name ""`:    func() (*shoalnats.Queue, error) { return shoalnats.Open(ctx, nc, "") },
		`the name "a.b"`: func() (*shoalnats.Queue, error) { return shoalnats.Open(ctx, nc, "a.b") },
		"WithLease(1ms)": func() (*shoalnats.Queue, error) {
			return shoalnats.Open(ctx, nc, "q", shoalnats.WithLease(time.Millisecond))
		},
		"WithReplicas(9)":    func() (*shoalnats.Queue, error) { return shoalnats.Open(ctx, nc, "q", shoalnats.WithReplicas(9)) },
		"WithDuplicates(0s)": func() (*shoalnats.Queue, error) { return shoalnats.Open(ctx, nc, "q", shoalnats.WithDuplicates(0)) },
		"WithDeadAge(-1ns)":  func() (*shoalnats.Queue, error) { return shoalnats.Open(ctx, nc, "q", shoalnats.WithDeadAge(-1)) },
		"WithDeadAge(99ms)": func() (*shoalnats.Queue, error) {
			return shoalnats.Open(ctx, nc, "q", shoalnats.WithDeadAge(99*time.Millisecond))
		},
		"option 0 is nil": func() (*shoalnats.Queue, error) { return shoalnats.Open(ctx, nc, "q", nil) },
	} {
		if _, err := f(); !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, have %v", want, err)
		}
	}
	if _, err := shoalnats.Open(ctx, nc, "q", shoalnats.WithExisting()); !errors.Is(err, jetstream.ErrStreamNotFound) || !strings.Contains(err.Error(), "SHOAL_q") {
		t.Errorf("a queue that is not there: %v", err)
	}
	q := open(t, nc, "q")
	bad := map[string]jobs.Message{
		`value "a\nb"`:    {Header: jobs.Header{"k": "a\nb"}},
		`the ID "a\r\nb"`: {ID: "a\r\nb"},
		"headers of 700":  {ID: strings.Repeat("x", 35_000)}, // it is sent twice
	}
	for _, k := range []string{"", "a b", "a:b", "größe", "a/b", "trace(id)", "x@y", "a=b", "a,b", "k\x00", "k\x7f", "\xff",
		"Nats-Msg-Id", "nats-x", "Shoal-Id", "Shoal-Reason", "Shoal-Attempt", "Shoal-Cut"} {
		bad[fmt.Sprintf("header %q", k)] = jobs.Message{Header: jobs.Header{k: "x"}}
	}
	for want, m := range bad {
		if err := q.Enqueue(ctx, jobs.Message{}, m); !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "message 1 of 2") {
			t.Errorf("want an error with %q, have %v", want, err)
		}
	}
	if _, err := q.Pull(ctx, 0); !errors.Is(err, jobs.ErrConfig) {
		t.Errorf("Pull(0): %v", err)
	}
	for name, f := range map[string]func() error{
		"Enqueue":     func() error { return q.Enqueue(none, jobs.Message{}) },
		"Pull":        func() error { _, err := q.Pull(none, 1); return err },
		"DeadLetters": func() error { _, err := q.DeadLetters(none, jobs.DeadFilter{}); return err },
		"Depth":       func() error { _, err := q.Depth(none); return err },
	} {
		if err := f(); !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), "nil context") {
			t.Errorf("%s without a context: %v", name, err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if ds, _ := q.Pull(short, 10); len(ds) > 0 {
		t.Errorf("of what was refused %d jobs are there", len(ds))
	}
}

// TestEveryKeyOfATokenIsSent: what Enqueue does not refuse, the client does not refuse either.
func TestEveryKeyOfATokenIsSent(t *testing.T) {
	q := open(t, connect(t, start(t, t.TempDir())), "q")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	h := jobs.Header{}
	for c := range 256 {
		k := string([]byte{'k', byte(c)})
		switch err := q.Enqueue(ctx, jobs.Message{Header: jobs.Header{k: "v"}}); {
		case err == nil:
			h[k] = "v"
		case !errors.Is(err, jobs.ErrConfig):
			t.Errorf("the header %q: %v", k, err)
		}
	}
	if len(h) != 2*26+10+len("!#$%&'*+-.^_`|~") {
		t.Errorf("%d keys are accepted", len(h))
	}
	for got := 0; got < len(h); {
		ds, err := q.Pull(ctx, len(h))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			for k, v := range d.Header() {
				if h[k] != v {
					t.Errorf("the header %q is %q", k, v)
				}
			}
			if len(d.Header()) != 1 {
				t.Errorf("%d headers", len(d.Header()))
			}
		}
		got += len(ds)
	}
}

func TestSettingsThatDifferAreRefused(t *testing.T) {
	nc := connect(t, start(t, t.TempDir()))
	ctx := context.Background()
	open(t, nc, "q", shoalnats.WithLease(10*time.Second))
	for want, o := range map[string]shoalnats.Option{
		"lease is 10s, want 20s":          shoalnats.WithLease(20 * time.Second),
		"duplicates is 2m0s, want 1h0m0s": shoalnats.WithDuplicates(time.Hour),
		"storage is File, want Memory":    shoalnats.WithMemory(),
		"maximum age is 0s, want 1h0m0s":  shoalnats.WithDeadAge(time.Hour),
	} {
		_, err := shoalnats.Open(ctx, nc, "q", shoalnats.WithLease(10*time.Second), o)
		if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, have %v", want, err)
		}
	}
}

func TestAQueueThatIsDeletedEndsServe(t *testing.T) {
	nc := connect(t, start(t, t.TempDir()))
	q := open(t, nc, "q")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	p := shoal.Must(shoal.New())
	defer p.Close()
	time.AfterFunc(200*time.Millisecond, func() { js.DeleteStream(context.Background(), "SHOAL_q") })
	err = jobs.Serve(context.Background(), p, q, func(context.Context, *jobs.Job) error { return nil })
	if !jobs.IsPermanent(err) || !strings.Contains(err.Error(), "queue q") {
		t.Errorf("Serve: %v", err)
	}
}

// TestAConnectionThatIsClosedEndsServe: it does not come back.
func TestAConnectionThatIsClosedEndsServe(t *testing.T) {
	nc := connect(t, start(t, t.TempDir()))
	q := open(t, nc, "q")
	p := shoal.Must(shoal.New())
	defer p.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	time.AfterFunc(200*time.Millisecond, nc.Close)
	err := jobs.Serve(ctx, p, q, func(context.Context, *jobs.Job) error { return nil })
	if !jobs.IsPermanent(err) || !errors.Is(err, nats.ErrConnectionClosed) || !strings.Contains(err.Error(), "queue q") {
		t.Errorf("Serve: %v", err)
	}
	if _, err := q.Pull(ctx, 1); !jobs.IsPermanent(err) {
		t.Errorf("Pull: %v", err)
	}
}

func TestWrongCredentials(t *testing.T) {
	s := start(t, t.TempDir(), withListen("127.0.0.1:0"), withToken("secret"))
	for _, o := range []nats.Option{nats.Token("wrong"), nats.Name("none")} {
		nc, err := nats.Connect(s.URL(), o, nats.Timeout(5*time.Second))
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("a connection with a wrong token, or none: %v", err)
		}
		if nc != nil {
			nc.Close()
		}
	}
	nc, err := nats.Connect(s.URL(), nats.Token("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	open(t, nc, "q")
}

// TestAClusterLosesNothingWithAServer: three servers, one is stopped with jobs under way.
func TestAClusterLosesNothingWithAServer(t *testing.T) {
	ports := freePorts(t, 6)
	var servers [3]*natsServer
	var wg sync.WaitGroup
	for i := range servers {
		dir := t.TempDir()
		wg.Go(func() {
			s, err := startServer(dir, withListen(ports[3+i]), withCluster(fmt.Sprint("s", i), ports[i], ports[:3]...))
			if err != nil {
				t.Error(err)
				return
			}
			servers[i] = s
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	defer func() {
		for _, s := range servers {
			s.Close()
		}
	}()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dial := func() *nats.Conn {
		nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	var q *shoalnats.Queue
	nc := dial()
	for q == nil { // until the cluster has a leader
		var err error
		once, stop := context.WithTimeout(ctx, 5*time.Second)
		if q, err = shoalnats.Open(once, nc, "mail", shoalnats.WithReplicas(3), shoalnats.WithLease(3*time.Second)); err != nil {
			q = nil
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		stop()
	}
	const n = 300
	var ran [n]atomic.Int64
	var all sync.WaitGroup
	all.Add(n)
	var twice atomic.Int64
	sctx, stop := context.WithCancel(ctx)
	defer stop()
	var serving sync.WaitGroup
	for range 2 {
		src := open(t, dial(), "mail", shoalnats.WithReplicas(3), shoalnats.WithLease(3*time.Second))
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
		serving.Go(func() {
			defer p.Close()
			err := jobs.Serve(sctx, p, src, func(ctx context.Context, j *jobs.Job) error {
				var i int
				fmt.Sscan(string(j.Data), &i)
				time.Sleep(5 * time.Millisecond)
				if k := ran[i].Add(1); k == 1 {
					all.Done()
				} else {
					twice.Add(1)
				}
				return nil
			})
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	for i := range n {
		if i == n/3 {
			servers[1].Close()
		}
		m := jobs.Message{ID: fmt.Sprint(i), Data: fmt.Appendf(nil, "%d", i)}
		for {
			once, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := q.Enqueue(once, m)
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("job %d: %v", i, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		missing := 0
		for i := range ran {
			if ran[i].Load() == 0 {
				missing++
			}
		}
		t.Errorf("%d of %d jobs did not run", missing, n)
	}
	stop()
	serving.Wait()
	t.Logf("%d jobs, a server of three stopped: 0 lost, %d ran twice", n, twice.Load())
}
