// Package shoalotel reports on shoal's pools to OpenTelemetry: [Register] the
// state and the figures of a pool as metrics, [Tracer] its tasks as spans.
//
// It depends on OpenTelemetry's API alone. What becomes of metrics and spans is
// up to the SDK that the program sets up; without one, next to nothing is done.
package shoalotel

// scope is the instrumentation scope of all that the package reports.
const scope = "github.com/shoal-go/shoal/contrib/otel"
