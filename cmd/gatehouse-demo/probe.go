package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"gatehouse/certs"
)

// probeCmd asks a server on this machine whether it answers. It exists because
// a fresh machine has neither curl nor openssl.
type probeCmd struct {
	URL  string `arg:"" help:"What to ask for, such as https://127.0.0.1:8443/healthz."`
	Cert string `help:"Certificate file that the server must show, whatever name it is for."`
	Any  bool   `name:"any-certificate" help:"Take any certificate: enough to learn whether something answers, and nothing else."`
}

func (p *probeCmd) Run() error {
	transport := &http.Transport{}
	if p.Any {
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // nothing secret is sent, nothing is believed
	}
	if p.Cert != "" {
		leaf, err := certs.LoadLeaf(p.Cert)
		if err != nil {
			return err
		}
		transport.TLSClientConfig = &tls.Config{
			InsecureSkipVerify: true, // VerifyConnection below wants one certificate, not one name
			VerifyConnection: func(c tls.ConnectionState) error {
				if !bytes.Equal(c.PeerCertificates[0].Raw, leaf.Raw) {
					return errors.New("the server shows another certificate than " + p.Cert)
				}
				return nil
			},
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, io.LimitReader(resp.Body, 4<<10)); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", p.URL, resp.Status)
	}
	return nil
}
