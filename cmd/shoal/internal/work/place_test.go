package work

import (
	"strings"
	"testing"
	"time"
)

// TestNoSecretIsSaid of an address, also of one that nothing can read.
func TestNoSecretIsSaid(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://host:1/db?sslmode=disable":                  "postgres://host:1/db?sslmode=disable",
		"postgres://user:secret@host/db":                        "postgres://user:xxxxx@host/db",
		"postgres://user:a@secret@host/db":                      "postgres://user:xxxxx@host/db",
		"postgres://user:se/cr?et@host/db":                      "postgres://user:xxxxx@host/db",
		"postgres://user:sec,ret@a:1,b:2/db":                    "postgres://user:xxxxx@a:1,b:2/db",
		"postgres://user:secret@[::1/db":                        "postgres://user:xxxxx@[::1/db",
		"postgres://host/db?user=x&password=topsecret":          "postgres://host/db?user=x&password=xxxxx",
		"postgres://host/db?password=top@se&cret&user=x":        "postgres://host/db?password=xxxxx",
		"postgres://host/db?sslpassword=secret&user=x":          "postgres://host/db?sslpassword=xxxxx",
		"postgres://user:%zzsecret@host/db":                     "postgres://user:xxxxx@host/db",
		"nats://a:1,b:2":                                        "nats://a:1,b:2",
		"a.example:4222":                                        "a.example:4222",
		"u:secret@host":                                         "u:xxxxx@host",
		"nats://token@host":                                     "nats://xxxxx@host",
		"nats://a,nats://u:secret@b:1":                          "nats://xxxxx@b:1",
		"nats://u:secret@a:1, tls://v:hidden@b:1":               "nats://u:xxxxx@b:1",
		"nats://u:sec,nats://ret@a:1":                           "nats://u:xxxxx@a:1",
		"nats://asecret=b@host":                                 "nats://xxxxx@host",
		"postgres://u:apass=b@host/db":                          "postgres://u:xxxxx@host/db",
		"nats://a:1?token=secret":                               "nats://a:1?token=xxxxx",
		"postgres://u:sec,x://ret@host/db":                      "postgres://u:xxxxx@host/db",
		"postgres://host/db?passphrase=secret":                  "postgres://host/db?passphrase=xxxxx",
		"secret@a,u:secret@b":                                   "xxxxx@b",
		"host=a user=b password=secret dbname=c":                "host=a user=b password=xxxxx",
		"host=a PASSWORD = 'top secret' dbname=c sslpassword=d": "host=a PASSWORD =xxxxx",
	} {
		if s := withoutSecrets(address); s != want {
			t.Errorf("%s: %s, want %s", address, s, want)
		}
	}
}

// TestAnAddressThatIsRefused is named without its secrets, which the reason may quote.
func TestAnAddressThatIsRefused(t *testing.T) {
	for _, p := range []Place{
		{SQL: "postgres://user:secret@[::1/db"},
		{SQL: "postgres://user:secret/s@host/db"},
		{SQL: "postgres://user:top@secret@127.0.0.1:1/db"},
		{SQL: "postgres://user:top@secret/s@127.0.0.1:1/db?sslmode=disable"},
		{SQL: "postgres://user:1/secret@127.0.0.1:1/db"},
		{SQL: "postgres://user:1?secret/s@127.0.0.1:1/db"},
		{SQL: "postgres://user:1@1?secret@127.0.0.1:1/db"},
		{SQL: "postgres://127.0.0.1:1/db?password=a&secret"},
		{SQL: "POSTGRES://user:%zzsecret@127.0.0.1:1/db"},
		{NATS: "nats://user:secret@[::1"},
		{NATS: "user:secret/s@host"},
		{NATS: "nats://127.0.0.1:1,nats://user:secret@host:port"},
	} {
		p.Queue, p.Lease = "q", time.Minute
		q, err := Open(t.Context(), p)
		if err == nil {
			q.Close()
			t.Errorf("%+v is open", p)
		} else if s := err.Error(); strings.Contains(s, "secret") || !strings.Contains(s, "xxxxx") || !strings.Contains(s, "is no valid address") {
			t.Errorf("%+v: %s", p, s)
		}
	}
}

// TestASettingThatIsRefused is named, and the address is not called wrong.
func TestASettingThatIsRefused(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://127.0.0.1:1/db?sslmode=nonsense":                      "sslmode is invalid",
		"postgres://user:secret@127.0.0.1:1/db?sslmode=nonsense":          "sslmode is invalid",
		"postgres://user:secret@127.0.0.1:1/db?sslrootcert=nothing":       "nothing",
		"postgres://user:secret@127.0.0.1:1/db?target_session_attrs=some": "target_session_attrs value: some",
		"postgres://user:secret@127.0.0.1:x/db":                           "invalid port",
		"postgres://127.0.0.1:1/db?password=secret&connect_timeout=soon":  "invalid connect_timeout",
		"postgresql://user:secret@127.0.0.1:1/db?user=a@b":                "failed to connect",
		"POSTGRES://user:secret@127.0.0.1:1/db":                           "failed to connect",
	} {
		q, err := Open(t.Context(), Place{SQL: address, Queue: "q", Lease: time.Minute})
		if err == nil {
			q.Close()
			t.Errorf("%s is open", address)
		} else if s := err.Error(); strings.Contains(s, "secret") || !strings.Contains(s, want) || strings.Contains(s, "is no valid address") {
			t.Errorf("%s: %s, want %s", address, s, want)
		}
	}
}

// TestWhatIsNoDatabase is named.
func TestWhatIsNoDatabase(t *testing.T) {
	for name, want := range map[string]string{"u:secret@h/b": `-sql "u:xxxxx@h/b" must be`, "mysql:x": `-sql "mysql:x" must be`, "mysql://u:secret@h/b": `-sql "mysql://u:xxxxx@h/b" must be`, "host=a password=secret": `-sql "host=a password=xxxxx" must be`} {
		if err := (Place{SQL: name}).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
