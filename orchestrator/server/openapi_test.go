package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"brig/orchestrator/api"
)

func TestDescription(t *testing.T) {
	mux := http.NewServeMux()
	doc, err := newSurface(surface{version: "test", brigOf: func(context.Context) api.Brig { return nil }}).mount(mux)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Fatalf("GET %s: %d", path, w.Code)
		}
		return w.Body.String()
	}
	if !strings.HasPrefix(get("/openapi.yaml"), "components:") {
		t.Error("/openapi.yaml is not the description in YAML")
	}
	var read map[string]any
	if err := json.Unmarshal([]byte(get("/openapi.json")), &read); err != nil {
		t.Fatal(err)
	}
	if read["openapi"] != "3.1.0" {
		t.Errorf("openapi: got %v", read["openapi"])
	}
	for path, item := range doc.Paths {
		if strings.Contains(path, "...") {
			t.Errorf("%s: the mux's form of a path was published", path)
		}
		for method, op := range map[string]*huma.Operation{"get": item.Get, "put": item.Put, "post": item.Post, "delete": item.Delete, "head": item.Head} {
			if op == nil {
				continue
			}
			if op.Summary == "" || op.Description == "" || len(op.Tags) == 0 {
				t.Errorf("%s %s: summary, description or tag is missing", method, path)
			}
			for _, status := range []string{"401", "421", "429", "500", "503"} {
				if op.Responses[status] == nil {
					t.Errorf("%s %s: %s is not described", method, path, status)
				}
			}
		}
	}
}
