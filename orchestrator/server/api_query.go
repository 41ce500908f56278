package server

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"brig/orchestrator/api"
)

// strict refuses what huma would let pass: a query that cannot be read, a parameter
// that comes twice, and values that are taken for a number, a truth or a choice
// although they are written otherwise or not at all.
func (s *surface) strict(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if p := strictQuery(r.URL.RawQuery, ctx.Operation().Parameters); p != nil {
		s.fail(w, r, p)
		return
	}
	if p := strictHeader(r.Header, ctx.Operation().Parameters); p != nil {
		s.fail(w, r, p)
		return
	}
	next(ctx)
}

// strictHeader refuses an empty or a second value of a header that has a form: a key
// that is overlooked is worse than none.
func strictHeader(h http.Header, known []*huma.Param) error {
	for _, param := range known {
		values := h.Values(param.Name)
		if param.In != "header" || param.Schema.Pattern == "" && len(param.Schema.Enum) == 0 || len(values) == 0 {
			continue
		}
		if len(values) > 1 || values[0] == "" {
			p := api.NewProblem(api.CodeInvalid, "the request is not valid", "compare it with /openapi.json")
			p.Errors = []api.FieldError{{Location: "header." + param.Name, Message: "expected once only, and not empty"}}
			return p
		}
	}
	return nil
}

func strictQuery(raw string, known []*huma.Param) error {
	if raw == "" {
		return nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return api.NewProblem(api.CodeMalformed, "the query of the address cannot be read", "percent-encode its values")
	}
	p := api.NewProblem(api.CodeInvalid, "the request is not valid", "compare it with /openapi.json")
	for _, param := range known {
		values := query[param.Name]
		if param.In != "query" || len(values) == 0 {
			continue
		}
		message := ""
		switch {
		case len(values) > 1:
			message = "expected once only"
		case !written(values[0], param.Schema):
			message = "expected " + param.Schema.Type + " as JSON writes it"
		}
		if message != "" {
			p.Errors = append(p.Errors, api.FieldError{Location: "query." + param.Name, Message: message})
		}
	}
	if len(p.Errors) > 0 {
		return p
	}
	return nil
}

// written says whether value is written as its type is.
func written(value string, s *huma.Schema) bool {
	switch s.Type {
	case huma.TypeInteger:
		return integer(value)
	case huma.TypeBoolean:
		return slices.Contains([]string{"true", "false"}, value)
	default:
		return value != "" || s.Format == "" && len(s.Enum) == 0
	}
}

func integer(value string) bool { return regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`).MatchString(value) }
