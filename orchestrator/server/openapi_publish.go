package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/yaml"
)

// serveDescription offers the description, which does not change while brig runs.
func serveDescription(mux *http.ServeMux, doc *huma.OpenAPI) error {
	asJSON, err := published(doc)
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	var asYAML bytes.Buffer
	if err := yaml.Convert(&asYAML, bytes.NewReader(asJSON)); err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	for path, content := range map[string]struct {
		kind string
		text []byte
	}{"/openapi.json": {"application/json", asJSON}, "/openapi.yaml": {"application/yaml", asYAML.Bytes()}} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", content.kind)
			w.Header().Set("Content-Length", strconv.Itoa(len(content.text)))
			_, _ = w.Write(content.text) // who is gone needs no answer
		})
	}
	return nil
}

// requests are the schemas of what is asked. In them null says the same as nothing,
// which huma takes but does not write down.
func requests() []string {
	return []string{"SessionRequest", "LimitsRequest", "Renewal", "RunRequest", "InlineFile", "DatasetRequest", "SelftestRequest"}
}

func published(doc *huma.OpenAPI) ([]byte, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var all struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, err
	}
	for _, name := range requests() {
		schema, ok := all.Components.Schemas[name]
		if !ok {
			return nil, fmt.Errorf("no schema is called %s", name)
		}
		required, _ := schema["required"].([]any)
		properties, _ := schema["properties"].(map[string]any)
		for key, p := range properties {
			if property, ok := p.(map[string]any); ok && !slices.Contains(required, any(key)) {
				properties[key] = orNull(property)
			}
		}
	}
	components, _ := whole["components"].(map[string]any)
	components["schemas"] = all.Components.Schemas
	return json.Marshal(whole)
}

// orNull is a schema that takes null as well.
func orNull(schema map[string]any) map[string]any {
	if ref, ok := schema["$ref"]; ok {
		nullable := map[string]any{"anyOf": []any{map[string]any{"$ref": ref}, map[string]any{"type": "null"}}}
		if about, ok := schema["description"]; ok {
			nullable["description"] = about
		}
		return nullable
	}
	if kind, ok := schema["type"].(string); ok {
		schema["type"] = []any{kind, "null"}
	}
	if choices, ok := schema["enum"].([]any); ok {
		schema["enum"] = append(choices, nil)
	}
	return schema
}

// link says which answers name what other operations ask for.
func link(doc *huma.OpenAPI) {
	for _, item := range doc.Paths {
		for _, op := range operationsOf(item) {
			for param, source := range sources() {
				if !slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "path" && p.Name == param }) {
					continue
				}
				for _, from := range source {
					from.of(doc).linkTo(op.OperationID, param)
				}
			}
		}
	}
}

// origin is an operation whose answer has an id.
type origin struct{ path string }

func (o origin) of(doc *huma.OpenAPI) maker { return maker{doc.Paths[o.path].Post} }

// maker is an operation that makes something that others ask for by its id.
type maker struct{ *huma.Operation }

// linkTo says in its answers that their id is a parameter of another operation.
func (m maker) linkTo(operation, param string) {
	for _, status := range []string{"200", "201", "202"} {
		r := m.Responses[status]
		if r == nil {
			continue
		}
		if r.Links == nil {
			r.Links = map[string]*huma.Link{}
		}
		r.Links[operation] = &huma.Link{OperationID: operation, Parameters: map[string]any{param: "$response.body#/id"}}
	}
}

func sources() map[string][]origin {
	return map[string][]origin{
		"session": {{"/v1/sessions"}},
		"run":     {{"/v1/sessions/{session}/runs"}, {"/v1/run"}},
		"id":      {{"/v1/selftest"}},
	}
}

func operationsOf(item *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{item.Get, item.Head, item.Put, item.Post, item.Delete}
	return slices.DeleteFunc(all, func(op *huma.Operation) bool { return op == nil })
}
