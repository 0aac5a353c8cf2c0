package bench

// PlanEnv, when set, makes the test binary print its workloads as JSON (a
// []Workload) instead of running them. That is how the runner knows them.
const PlanEnv = "SHOAL_BENCH_PLAN"

// Workload is one row of a table, as the runner sees it.
type Workload struct {
	Name      string   // "Rand/load=1u-1Mt"; the family comes first
	Benchtime string   // for -test.benchtime
	Pools     []string // the subjects that take part
}
