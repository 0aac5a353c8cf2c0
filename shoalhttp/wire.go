package shoalhttp

// These types are what stats.json, events, workers.json and stacks.json send.
// Times are seconds; -1 stands for no bound. A field may be added, none is
// removed or changes its meaning within a major version.

// A Snapshot is the state of all pools at one moment.
type Snapshot struct {
	// Time is when it was taken, in seconds since 1970.
	Time float64 `json:"time"`
	// Interval is the time since the snapshot that rates and intervals refer to.
	// The first one has 0, and no rates.
	Interval   float64   `json:"interval"`
	Started    string    `json:"started"` // when the page was made: changes when the program starts again
	GoVersion  string    `json:"go_version"`
	GOMAXPROCS int       `json:"gomaxprocs"`
	Goroutines int       `json:"goroutines"`
	Controls   bool      `json:"controls"` // whether control is served
	Pools      []PoolRow `json:"pools"`    // a sub-pool comes right after its parent and that one's earlier sub-pools
}

// A PoolRow is a pool's part of a Snapshot. Its counters are as in
// [shoal.Stats].
type PoolRow struct {
	ID     int    `json:"id"`     // for workers.json and others; never used again
	Parent int    `json:"parent"` // of a sub-pool, its parent's ID; else -1
	Depth  int    `json:"depth"`  // how many parents are above it
	Name   string `json:"name"`   // unique among those with the same parent
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
	QueueCapacity int `json:"queue_capacity"` // -1: unbounded
	Blocked       int `json:"blocked"`
	Reserved      int `json:"reserved"`

	Workers     int `json:"workers"`
	Running     int `json:"running"`
	Idle        int `json:"idle"`
	PeakWorkers int `json:"peak_workers"`
	MinWorkers  int `json:"min_workers"`
	MaxWorkers  int `json:"max_workers"`

	Stalled float64 `json:"stalled"` // for how long the pool has been stalled

	// In the interval: tasks per second, and the distributions of those that were
	// measured; count 0 where there was none.
	SubmitRate   float64   `json:"submit_rate"`
	CompleteRate float64   `json:"complete_rate"`
	RejectRate   float64   `json:"reject_rate"`
	DropRate     float64   `json:"drop_rate"`
	Wait         Durations `json:"wait"`
	Run          Durations `json:"run"`
	// Since the pool was made.
	WaitTotal Durations `json:"wait_total"`
	RunTotal  Durations `json:"run_total"`

	// Sources are the durable queues that the pool works off, by package jobs.
	Sources []SourceRow `json:"sources,omitempty"`
}

// A SourceRow is a durable queue's part of a PoolRow. Its counters are as in
// [jobs.Stats].
type SourceRow struct {
	Name        string  `json:"name"`
	Lease       float64 `json:"lease"` // for how long a job is leased
	Held        int     `json:"held"`
	Running     int     `json:"running"`
	Leased      uint64  `json:"leased"`
	Acked       uint64  `json:"acked"`
	Retried     uint64  `json:"retried"`
	Dead        uint64  `json:"dead"`
	LeasesLost  uint64  `json:"leases_lost"`
	Untold      uint64  `json:"untold"`
	Extended    uint64  `json:"extended"`
	PullErrors  uint64  `json:"pull_errors"`
	Failing     bool    `json:"failing"` // a call failed in the last ten seconds
	LastError   string  `json:"last_error,omitempty"`
	LastErrorAt float64 `json:"last_error_at,omitempty"` // in seconds since 1970
}

// Durations describes a distribution.
type Durations struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"` // since the pool was made
}

// Workers is what workers.json sends.
type Workers struct {
	Pool    int         `json:"pool"`
	Total   int         `json:"total"`   // how many there are
	Workers []WorkerRow `json:"workers"` // the first limit of them: the longest running ones, then the others by id
}

// A WorkerRow is a worker's part of Workers.
type WorkerRow struct {
	ID       int     `json:"id"`
	State    string  `json:"state"` // running, spinning, parked
	Executed uint64  `json:"executed"`
	Failed   uint64  `json:"failed"`
	TaskAge  float64 `json:"task_age"` // 0: in no task, or just begun
}

// Stacks is what stacks.json sends.
type Stacks struct {
	Pool  int        `json:"pool"`
	Tasks []StackRow `json:"tasks"` // oldest first
	Note  string     `json:"note"`  // why stacks are missing; else empty
}

// A StackRow is a running task.
type StackRow struct {
	Worker int     `json:"worker"`
	Age    float64 `json:"age"`
	Stack  string  `json:"stack"` // as Go prints it, the task's own frames first
}
