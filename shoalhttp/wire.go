package shoalhttp

// A Snapshot is the state of all pools at one moment, as stats.json and events send it. Its
// times are in seconds.
type Snapshot struct {
	// Time is when the snapshot was taken, in seconds since 1970.
	Time float64 `json:"time"`
	// Interval is the time since the previous snapshot, in seconds. The rates and the
	// distributions Wait and Run are of this interval, or of the time since the page first
	// looked at the pool. There are none if that is less than 250 ms, nor in the first
	// snapshot, where Interval is 0.
	Interval   float64   `json:"interval"`
	Started    string    `json:"started"` // when the page was made; it changes when the program restarts
	GoVersion  string    `json:"go_version"`
	GOMAXPROCS int       `json:"gomaxprocs"`
	Goroutines int       `json:"goroutines"`
	Controls   bool      `json:"controls"` // whether the page was made with WithControls
	Queues     int       `json:"queues"`   // how many durable queues queues.json has
	Pools      []PoolRow `json:"pools"`    // a sub-pool comes after its parent and that parent's earlier sub-pools
}

// A PoolRow is the part of a [Snapshot] about one pool. Its counters are those of
// [shoal.Stats].
type PoolRow struct {
	ID     int    `json:"id"`     // for workers.json and stacks.json; never reused
	Parent int    `json:"parent"` // the ID of the parent; -1 if there is none
	Depth  int    `json:"depth"`  // number of parents above it
	Name   string `json:"name"`   // unique among the pools with the same parent; control characters are escaped as in Go
	State  string `json:"state"`

	Submitted uint64 `json:"submitted"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Rejected  uint64 `json:"rejected"`
	Dropped   uint64 `json:"dropped"`
	Canceled  uint64 `json:"canceled"`
	Spawned   uint64 `json:"spawned"`
	Stalls    uint64 `json:"stalls"`
	SlowTasks uint64 `json:"slow_tasks"`

	InFlight      int `json:"in_flight"`
	Queued        int `json:"queued"`
	QueueCapacity int `json:"queue_capacity"` // -1 if unbounded
	Blocked       int `json:"blocked"`
	Reserved      int `json:"reserved"`

	Workers     int `json:"workers"`
	Running     int `json:"running"`
	Idle        int `json:"idle"`
	PeakWorkers int `json:"peak_workers"`
	MinWorkers  int `json:"min_workers"`
	MaxWorkers  int `json:"max_workers"`

	Stalled float64 `json:"stalled"` // how long the pool has been stalled; 0 if it is not

	// In the interval: tasks per second, and the distributions of the tasks that were
	// measured. If none was, Count is 0.
	SubmitRate   float64   `json:"submit_rate"`
	CompleteRate float64   `json:"complete_rate"`
	FailRate     float64   `json:"fail_rate"`
	RejectRate   float64   `json:"reject_rate"`
	DropRate     float64   `json:"drop_rate"`
	Wait         Durations `json:"wait"`
	Run          Durations `json:"run"`
	// Since the pool was made.
	WaitTotal Durations `json:"wait_total"`
	RunTotal  Durations `json:"run_total"`

	// Sources are the durable queues that package jobs serves on the pool.
	Sources []SourceRow `json:"sources,omitempty"`

	// Below is about its sub-pools, their sub-pools, and so on, together.
	Below Below `json:"below"`

	// Verdicts are what is wrong with the pool, or worth knowing, the worst first.
	Verdicts []Verdict `json:"verdicts,omitempty"`
}

// Below is the part of a [PoolRow] about all pools below it. All fields are 0 if there are none.
type Below struct {
	Pools        int     `json:"pools"`
	Running      int     `json:"running"` // workers of the pool that are inside tasks of those
	Queued       int     `json:"queued"`
	SubmitRate   float64 `json:"submit_rate"`
	CompleteRate float64 `json:"complete_rate"`
}

// add adds a pool right below, with all below it.
func (b *Below) add(r *PoolRow) {
	b.Pools += 1 + r.Below.Pools
	b.Running += r.Running // of its sub-pools too
	b.Queued += r.Queued + r.Below.Queued
	b.SubmitRate += r.SubmitRate + r.Below.SubmitRate
	b.CompleteRate += r.CompleteRate + r.Below.CompleteRate
}

// A Verdict is the part of a [PoolRow] or a [QueueRow] about one thing that is wrong, or worth knowing.
type Verdict struct {
	Level int    `json:"level"` // 1: worth knowing; 2: a problem; 3: nothing gets done
	Label string `json:"label"` // one or two words: stalled, failing, queue full
	Text  string `json:"text"`  // a sentence with numbers and times; the pool or queue is its subject
	// Stacks is whether the stacks of the oldest tasks tell more.
	Stacks bool `json:"stacks,omitempty"`
}

// History is what history.json sends.
type History struct {
	Pool   int            `json:"pool"`
	Points []HistoryPoint `json:"points"` // the oldest first, about one every five seconds
}

// A HistoryPoint is the part of [History] about one interval. Its times are in seconds.
type HistoryPoint struct {
	Time         float64 `json:"time"`     // its end, in seconds since 1970
	Interval     float64 `json:"interval"` // the rates and times are of that long before
	SubmitRate   float64 `json:"submit_rate"`
	CompleteRate float64 `json:"complete_rate"`
	FailRate     float64 `json:"fail_rate"`
	RejectRate   float64 `json:"reject_rate"`
	DropRate     float64 `json:"drop_rate"`
	BelowRate    float64 `json:"below_rate"` // tasks per second that sub-pools ended
	Queued       int     `json:"queued"`     // at its end, as the next three
	Running      int     `json:"running"`
	Idle         int     `json:"idle"`
	MaxWorkers   int     `json:"max_workers"`
	WaitP50      float64 `json:"wait_p50"` // 0 if no task was measured, as the next three
	WaitP99      float64 `json:"wait_p99"`
	RunP50       float64 `json:"run_p50"`
	RunP99       float64 `json:"run_p99"`
}

// A SourceRow is the part of a [PoolRow] about one durable queue. Its counters are those of
// [jobs.Stats].
type SourceRow struct {
	Name        string  `json:"name"`
	Lease       float64 `json:"lease"` // how long a job is leased
	Held        int     `json:"held"`
	Running     int     `json:"running"`
	Leased      uint64  `json:"leased"`
	Acked       uint64  `json:"acked"`
	Retried     uint64  `json:"retried"`
	Dead        uint64  `json:"dead"`
	LeasesLost  uint64  `json:"leases_lost"`
	Untold      uint64  `json:"untold"`
	TimedOut    uint64  `json:"timed_out"`
	Extended    uint64  `json:"extended"`
	PullErrors  uint64  `json:"pull_errors"`
	Failing     bool    `json:"failing"`                 // whether a Pull failed in the last 20 seconds
	LastError   string  `json:"last_error,omitempty"`    // cut; control characters are escaped as in Go
	LastErrorAt float64 `json:"last_error_at,omitempty"` // in seconds since 1970

	Oldest      *SourceJob `json:"oldest,omitempty"`       // the job that has been in its handler for longest, and since when
	LastFailure *SourceJob `json:"last_failure,omitempty"` // the job that failed last, and when
}

// A SourceJob is the part of a [SourceRow] about one job. Its texts are cut, and control characters
// in them are escaped as in Go.
type SourceJob struct {
	ID    string  `json:"id"`
	Type  string  `json:"type,omitempty"`
	At    float64 `json:"at"` // in seconds since 1970
	Error string  `json:"error,omitempty"`
}

// Queues is what queues.json sends.
type Queues struct {
	Queues []QueueRow `json:"queues"` // in the order in which they were added
}

// A QueueRow is the part of [Queues] about one durable queue of [WithQueue]. Its numbers are
// those of [jobs.Depth] when it was measured last, and its times are in seconds.
type QueueRow struct {
	Name        string    `json:"name"`     // control characters are escaped as in Go
	Measured    float64   `json:"measured"` // when, in seconds since 1970; 0: never, so the next five are not known
	Ready       int64     `json:"ready"`
	Delayed     int64     `json:"delayed"`
	Leased      int64     `json:"leased"`
	Dead        int64     `json:"dead"`
	Oldest      float64   `json:"oldest"`             // the lag
	Error       string    `json:"error,omitempty"`    // why it cannot be measured now; cut, and escaped as Name
	DeadLetters bool      `json:"dead_letters"`       // whether it is a [jobs.DeadStore]
	Verdicts    []Verdict `json:"verdicts,omitempty"` // the worst first; the queue is their subject
}

// Durations describes a distribution of times, in seconds.
type Durations struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"` // the largest since the pool was made
}

// Workers is what workers.json sends.
type Workers struct {
	Pool    int         `json:"pool"`
	Total   int         `json:"total"`   // number of workers of the pool
	Workers []WorkerRow `json:"workers"` // the first limit of them: those with the oldest tasks, then the others by ID
}

// A WorkerRow is the part of [Workers] about one worker.
type WorkerRow struct {
	ID       int     `json:"id"`
	State    string  `json:"state"` // running, spinning or parked
	Executed uint64  `json:"executed"`
	Failed   uint64  `json:"failed"`
	TaskAge  float64 `json:"task_age"` // 0 if it is in no task, or the task has just begun
}

// Stacks is what stacks.json sends.
type Stacks struct {
	Pool  int        `json:"pool"`
	Tasks []StackRow `json:"tasks"` // oldest first
	// Groups are the running tasks, up to 10,000, folded: those whose stacks are at the same
	// places are one. The group with the oldest task is the first, and there are at most 100.
	Groups []StackGroup `json:"groups"`
	Note   string       `json:"note"` // why stacks are missing; empty if none is
}

// A StackGroup is the part of [Stacks] about running tasks whose stacks are equal.
type StackGroup struct {
	Count   int     `json:"count"`
	Age     float64 `json:"age"`     // of the oldest
	Workers []int   `json:"workers"` // up to 10, that of the oldest first
	// Func is the innermost function of the program's own code, which is its main module, and
	// Place its file and line. If no frame is of that, they are of another module, or else of Go
	// itself.
	Func  string `json:"func"`
	Place string `json:"place"`
	Stack string `json:"stack"` // of the oldest
}

// A StackRow is the part of [Stacks] about one running task.
type StackRow struct {
	Worker int     `json:"worker"`
	Age    float64 `json:"age"`
	Stack  string  `json:"stack"` // as Go prints it, beginning with the task's own frames
}
