package server

import (
	"strings"
	"testing"

	"brig/orchestrator/service"
)

func TestLogin(t *testing.T) {
	w := withWho(t)
	login, err := w.Login()
	if err != nil {
		t.Fatal(err)
	}
	path, ok := strings.CutPrefix(login.URL, "http://"+w.bound.Address)
	if !ok || login.Expires.IsZero() {
		t.Fatalf("%+v", login)
	}
	if r := w.get(t, "tcp", path, "Sec-Fetch-Site: cross-site"); r.StatusCode != 403 {
		t.Errorf("another site's page used it: %d", r.StatusCode)
	}
	for _, method := range []string{"HEAD", "POST"} {
		r := w.raw(t, "tcp", method+" "+path+" HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nSec-Fetch-Site: none\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if r == nil || r.StatusCode == 303 || len(r.Cookies()) > 0 {
			t.Errorf("%s used it: %+v", method, r)
		}
	}
	r := w.get(t, "tcp", path, "Sec-Fetch-Site: none")
	if r.StatusCode != 303 || len(r.Cookies()) != 1 {
		t.Fatalf("%d %s", r.StatusCode, r.text)
	}
	cookie := r.Header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("no %s: %s", part, cookie)
		}
	}
	if strings.Contains(cookie, "Domain") {
		t.Errorf("%s", cookie)
	}
	if again := w.get(t, "tcp", path, "Sec-Fetch-Site: none"); again.StatusCode != 401 {
		t.Errorf("it worked twice: %d", again.StatusCode)
	}
	value := r.Cookies()[0].Value
	for _, c := range []struct {
		headers []string
		want    int
	}{
		{[]string{"Cookie: brig_page=" + value, "Sec-Fetch-Site: same-origin"}, 200},
		{[]string{"Cookie: brig_page=" + value, "Sec-Fetch-Site: none"}, 200},
		// A browser sends the cookie for every port of the host, and no browser says nothing.
		{[]string{"Cookie: brig_page=" + value, "Sec-Fetch-Site: same-site"}, 403},
		{[]string{"Cookie: brig_page=" + value, "Sec-Fetch-Site: cross-site"}, 403},
		{[]string{"Cookie: brig_page=" + value}, 401},
		{[]string{"Cookie: brig_page=" + value, "Origin: http://127.0.0.1:1"}, 403},
		// Another port can set a cookie of that name beside ours.
		{[]string{"Cookie: brig_page=planted; brig_page=" + value, "Sec-Fetch-Site: none"}, 200},
		{[]string{"Cookie: brig_page=planted", "Sec-Fetch-Site: none"}, 401},
		{[]string{"Cookie: " + strings.Repeat("brig_page=planted; ", 20) + "brig_page=" + value, "Sec-Fetch-Site: none"}, 401},
		// A credential that was sent is the one that counts.
		{[]string{"Cookie: brig_page=" + value, "Sec-Fetch-Site: none", bearer("nonsense")}, 401},
	} {
		r := w.get(t, "tcp", "/who", c.headers...)
		if r.StatusCode != c.want {
			t.Errorf("%q: %d, want %d", c.headers, r.StatusCode, c.want)
		}
		if r.StatusCode == 200 && !strings.HasPrefix(r.text, service.Operator.String()) {
			t.Errorf("%q: %s", c.headers, r.text)
		}
	}
	for range maxPages {
		if _, err = w.Login(); err != nil {
			break
		}
	}
	if _, more := w.Login(); more == nil {
		t.Error("any number of logins wait")
	}
}
