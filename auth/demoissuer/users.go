package demoissuer

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// User is one of the people of the demo.
type User struct {
	Name    string // what is typed at the login page
	Subject string // the sub claim; the same for ever
	Full    string
	Email   string // of a domain that cannot exist (RFC 2606 section 2)
}

// Users are the people of the demo.
var Users = []User{
	{"alice", "demo-alice", "Alice Demo", "alice@demo.invalid"},
	{"bob", "demo-bob", "Bob Demo", "bob@demo.invalid"},
}

func userNamed(name string) (User, error) {
	i := slices.IndexFunc(Users, func(u User) bool { return u.Name == name })
	if i < 0 {
		return User{}, fmt.Errorf("the demo has no user %q; it has %s", name, names())
	}
	return Users[i], nil
}

func userOf(subject string) (User, bool) {
	i := slices.IndexFunc(Users, func(u User) bool { return u.Subject == subject })
	if i < 0 {
		return User{}, false
	}
	return Users[i], true
}

func names() string {
	var all []string
	for _, u := range Users {
		all = append(all, u.Name)
	}
	return strings.Join(all, ", ")
}

// WriteAccounts writes the accounts file that maps each user of the demo to
// the account prefix + name.
func WriteAccounts(w io.Writer, issuer, prefix string) error {
	for _, u := range Users {
		_, err := fmt.Fprintf(w, "- issuer: %s\n  subject: %s\n  account: %s%s\n  name: %s\n  email: %s\n",
			issuer, u.Subject, prefix, u.Name, u.Full, u.Email)
		if err != nil {
			return err
		}
	}
	return nil
}
