package monitor

import (
	"errors"
	"path/filepath"
	"testing"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/session/spawn"
)

// TestScopesAreTheMonitorsAffairToo: whoever sits in the front end starts no worker, and
// extends no lease, by a token without the scopes that the server requires. A reload may
// change them.
func TestScopesAreTheMonitorsAffairToo(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.cfg.Servers[0].Scopes = identity.NewScopes("mcp:use", "mcp:admin")
	r.recipe(`cat "` + filepath.Join(r.dir, "answer") + `"`)
	r.start()
	c := r.front()
	good := r.token("alice", authtest.Claim("scope", "mcp:admin openid mcp:use"))
	for name, bad := range map[string]string{
		"one of two":   r.token("alice", authtest.Claim("scope", "mcp:use")),
		"another case": r.token("alice", authtest.Claim("scope", "mcp:use mcp:Admin")),
		"none":         r.token("alice", authtest.Without("scope")),
	} {
		_, err := c.Spawn(t.Context(), spawn.Request{Token: bad})
		if e, ok := errors.AsType[*spawn.Error](err); !ok || e.Kind != spawn.KindToken {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := r.spawn(c, good)
	renewed := make(chan error, 1)
	w.Renew(r.token("alice", authtest.Claim("scope", "mcp:use")), func(err error) { renewed <- err })
	err := <-renewed
	if e, ok := errors.AsType[*spawn.Error](err); !ok || e.Kind != spawn.KindToken {
		t.Errorf("renewed: %v", err)
	}
	r.answer(`{"PerPrincipal":9,"Scopes":["files"],"Fixed":{"mode":"1","listen.port":"2"}}`)
	r.m.reload(t.Context())
	if _, err := c.Spawn(t.Context(), spawn.Request{Token: good}); err == nil {
		t.Error("the scopes of before the reload hold")
	}
	r.spawn(c, r.token("alice", authtest.Claim("scope", "files")))
}
