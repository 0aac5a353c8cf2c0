# Does with the demo, on a free port, what docs/observe.md does with it.
go build -o "$tmp/shoal" ./cmd/shoal
cd "$tmp"
./shoal demo -listen 127.0.0.1:0 -dir "$root" >said 2>log &
trap 'kill -INT $!; wait $!' EXIT
until grep -qs '^profiles' said; do sleep 0.1; done
at=$(sed -n 's/^metrics *\(.*\)\/metrics$/\1/p' said)
for _ in 1 2 3 4 5; do # a second may be without a sample in a task
	curl -fsS -o cpu.pb "$at/debug/pprof/profile?seconds=1"
	go tool pprof -tags cpu.pb >tags
	! grep 'pool: Total' tags || break
done
grep 'pool: Total' tags
go tool pprof -top -tagfocus=pool=hash cpu.pb >top
grep 'flat%' top
curl -fsS -o goroutines "$at/debug/pprof/goroutine?debug=1"
grep '"pool":"' goroutines
curl -fsS -o t.trace "$at/debug/pprof/trace?seconds=1"
go tool trace -d=parsed t.trace >parsed
grep -E 'Task(Begin|End)|Region(Begin|End)' parsed >events
grep 'TaskBegin.*shoal:people' events
