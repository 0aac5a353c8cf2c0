// Package shoalotel reports shoal's pools to OpenTelemetry: [Register] reports the
// statistics of a pool as metrics, and [Tracer] reports its tasks as spans.
//
// The package depends on OpenTelemetry's API alone. The program chooses the SDK, the
// exporters and the sampling. Without an SDK, nothing is recorded, at almost no cost.
package shoalotel

// scope is the instrumentation scope of all that the package reports.
const scope = "github.com/shoal-go/shoal/contrib/otel"
