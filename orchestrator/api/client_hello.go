package api

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// Hello asks which brig it is. Whatever that brig says of its own health, it answers.
func (c *Client) Hello(ctx context.Context) (version string, err error) {
	request, err := c.request(ctx, call{method: http.MethodGet, path: "/healthz"})
	if err != nil {
		return "", err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return "", unanswered(ctx, err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxProblem)) // so that the connection can be used again
	version = answer.Header.Get(VersionHeader)
	switch {
	case version == "":
		return "", errNoBrig()
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return version, readProblem(answer)
	default:
		return version, nil
	}
}

func errNoBrig() error { return NewProblem(CodeUnreachable, "what answers there is no brig", "") }

// IsProblem tells whether an error is a problem of that code.
func IsProblem(err error, c Code) bool { return errors.Is(err, &Problem{Code: c}) }
