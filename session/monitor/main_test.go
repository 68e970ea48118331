package monitor

import (
	"os"
	"testing"

	"gatehouse/session/accounts/accountstest"
)

var folk accountstest.People

func TestMain(m *testing.M) { os.Exit(accountstest.Main(m, &folk)) }
