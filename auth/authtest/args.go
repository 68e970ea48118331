package authtest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Args reads changes as they are written in test scripts and returns them:
//
//	sub=bob             a claim; typ, kid and alg set the header
//	aud=["a","b"]       JSON when it starts with [ { or "
//	exp=+30  nbf=-5     seconds from now for exp, iat, nbf and auth_time
//	-client_id          without the claim; -typ, -kid and -alg: without the parameter
//	claim.typ=ID        a claim of a name that is the header's
//	header.cty=JWT      any header parameter
//	kid=new             signed with a new key, which the issuer then has too
func (i *Issuer) Args(args ...string) ([]Change, error) {
	var changes []Change
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "-"); ok {
			if inHeader(name) {
				changes = append(changes, WithoutHeader(name))
			} else {
				changes = append(changes, Without(strings.TrimPrefix(name, "claim.")))
			}
			continue
		}
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("mint: %q is neither name=value nor -name", arg)
		}
		if name == "kid" && value == "new" {
			changes = append(changes, SignedBy(i.Rotate(i.Current().Algorithm)))
			continue
		}
		parsed, err := i.value(name, value)
		if err != nil {
			return nil, err
		}
		if header, ok := strings.CutPrefix(name, "header."); ok {
			changes = append(changes, Header(header, parsed))
		} else if inHeader(name) {
			changes = append(changes, Header(name, parsed))
		} else {
			changes = append(changes, Claim(strings.TrimPrefix(name, "claim."), parsed))
		}
	}
	return changes, nil
}

// MintArgs is Mint with Args.
func (i *Issuer) MintArgs(args ...string) (string, error) {
	changes, err := i.Args(args...)
	if err != nil {
		return "", err
	}
	return i.Mint(changes...), nil
}

func inHeader(name string) bool { return name == "typ" || name == "kid" || name == "alg" }

func (i *Issuer) value(name, value string) (any, error) {
	switch name {
	case "exp", "iat", "nbf", "auth_time":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("mint: %s=%s: want seconds", name, value)
		}
		if strings.HasPrefix(value, "+") || strings.HasPrefix(value, "-") {
			n += i.Now().Unix()
		}
		return n, nil
	}
	if value != "" && strings.Contains(`[{"`, value[:1]) {
		if !json.Valid([]byte(value)) {
			return nil, fmt.Errorf("mint: %s=%s: no JSON", name, value)
		}
		return Raw(value), nil
	}
	return value, nil
}
