package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
	"gatehouse/cmd/internal/plan"
	"gatehouse/session/accounts"
)

// explain reads one token and says what each check makes of it. The token itself
// is never printed.
func (k *checker) explain(ctx context.Context, in io.Reader, server int) error {
	if !k.c.Authenticated() {
		return errors.New("check --token-stdin: loopback mode asks nobody for a token")
	}
	if server < 0 || server >= len(k.c.Servers) {
		return fmt.Errorf("check --server %d: the configuration has %s, counted from 0", server, count(len(k.c.Servers), "server"))
	}
	raw, err := readToken(in)
	if err != nil {
		return err
	}
	v, err := verifier(k.c)
	if err != nil {
		return err
	}
	if limit := k.c.Limits.MaxToken; int64(len(raw)) > limit {
		k.say(failed, "limit", "the token has %d bytes and limits.max_token is %d (MCP_MAX_TOKEN)", len(raw), limit)
	}
	set, now := k.fetchAll(ctx), time.Now()
	audiences := k.c.Audiences(server)
	for _, step := range v.Explain(raw, audiences, set, now) {
		switch step.Outcome {
		case token.OutcomeOK:
			k.say(okay, step.Name, "%s", step.Detail)
		case token.OutcomeFailed:
			k.say(failed, step.Name, "%s\nthe client reads: %s\n%s", step.Detail, step.Kind.Public(), tokenRemedy(step))
		default:
			fmt.Fprintf(k.out, "-     %s: not reached\n", step.Name)
		}
	}
	if t, err := v.Verify(raw, audiences, set, now); err == nil {
		k.authorized(ctx, t, server)
	}
	if k.fails > 0 {
		fmt.Fprintln(k.out, "\nThis token would be refused.")
		return exitStatus(exitFailed)
	}
	fmt.Fprintln(k.out, "\nThis token would be accepted.")
	return nil
}

// readToken reads a token, with or without its scheme and a line's end.
func readToken(in io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(in, token.MaxBytes+64))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	raw := strings.TrimSpace(string(b))
	if scheme, rest, ok := strings.Cut(raw, " "); ok && strings.EqualFold(scheme, "Bearer") {
		raw = strings.TrimSpace(rest)
	}
	if raw == "" {
		return "", errors.New("read token: standard input is empty")
	}
	return raw, nil
}

// fetchAll gets the keys of every issuer; one that can't be reached is reported
// and has none.
func (k *checker) fetchAll(ctx context.Context) *token.KeySet {
	all := map[identity.Issuer][]token.Key{}
	for _, is := range k.c.Issuers {
		r, err := fetchKeys(ctx, is)
		if err != nil {
			k.say(failed, "issuer "+is.Issuer, "%v%s", err, remedy(err, is))
			continue
		}
		all[identity.Issuer(is.Issuer)] = r.Keys
	}
	return token.NewKeySet(all)
}

// authorized says what comes after a valid token: scopes, and the account.
func (k *checker) authorized(ctx context.Context, t *token.Token, server int) {
	var missing []string
	for _, want := range k.c.Servers[server].RequiredScopes {
		if !t.Scopes.Has(identity.Scope(want)) {
			missing = append(missing, want)
		}
	}
	if len(missing) > 0 {
		k.say(failed, "required scopes", "the token has %q and lacks %s (403 insufficient_scope)\nAsk for the scope at sign-in; at Keycloak make a client scope of that name and give it to the client", t.Scopes.String(), strings.Join(missing, ", "))
	} else {
		k.say(okay, "required scopes", "%s", strings.Join(k.c.Servers[server].RequiredScopes, " "))
	}
	if t.ClientOwn {
		k.say(warned, "user", "no user stands behind this token (%s): 403, unless the accounts file names its client_id", t.ClientOwnReason)
	}
	switch k.c.Way() {
	case plan.RunShared:
		k.say(okay, "account", "shared-account: no account is looked up")
	case plan.RunMonitor, plan.RunSame:
		k.account(ctx, t)
	}
}

// account maps the token's principal to an account, as the monitor will.
func (k *checker) account(ctx context.Context, t *token.Token) {
	name := t.AccountClaim
	if file := k.c.Accounts.File; file != "" {
		m, err := accounts.ReadMap(file, k.c.EUID())
		if err != nil {
			k.say(failed, "account", "%v", err)
			return
		}
		e, ok := m.Find(t.Principal, t.ClientOwn)
		if !ok {
			own := ""
			if t.ClientOwn { // an entry without it never admits a client's own token
				own = "\n  client_id: " + string(t.Principal.Client)
			}
			k.say(failed, "account", "%s has no entry for this principal (403); to add it:\n- issuer: %s\n  subject: %s%s\n  account: NAME", file, t.Principal.Issuer, t.Principal.Subject, own)
			return
		}
		name = e.Account
	} else if t.ClientOwn {
		k.say(failed, "account", "a client's own token gets no account by a claim (403)")
		return
	} else if name == "" {
		k.say(failed, "account", "the token has no claim %s (403); at Keycloak add a mapper for it to the client scope", k.c.Accounts.UserIDClaim)
		return
	}
	k.mayUse(ctx, name, failed)
}
