package main

import "testing"

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"tcp://me:secret@engine:2376":              "tcp://me:***@engine:2376",
		"could not reach ssh://a:b@h/x: and more":  "could not reach ssh://a:***@h/x: and more",
		"unix:///var/run/docker.sock":              "unix:///var/run/docker.sock",
		"ssh://me@engine":                          "ssh://me@engine",
		"tcp://engine:2376":                        "tcp://engine:2376",
		"http://u:p@one and http://u:q@two, twice": "http://u:***@one and http://u:***@two, twice",
	} {
		if got := redact(in); got != want {
			t.Errorf("redact(%q) = %q, want %q", in, got, want)
		}
	}
}
