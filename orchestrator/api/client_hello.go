package api

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// Hello asks which brig it is, with the cheapest question that the whole of it takes
// part in answering. A problem other than of the credential is an answer as well.
func (c *Client) Hello(ctx context.Context) (version string, err error) {
	request, err := c.request(ctx, call{method: http.MethodGet, path: path("sessions"), query: page(Page{Limit: 1})})
	if err != nil {
		return "", err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return "", unanswered(ctx, err)
	}
	defer answer.Body.Close()
	version = answer.Header.Get(VersionHeader)
	if version == "" {
		return "", errNoBrig()
	}
	if answer.StatusCode/100 != 2 {
		p := readProblem(answer)
		switch p.Code {
		case CodeUnauthorized, CodeForbidden, CodeHost, CodeInterruptedIO:
			return version, p
		}
		return version, nil
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)); err != nil {
		return version, broke(ctx, err)
	}
	return version, nil
}

func errNoBrig() error { return NewProblem(CodeUnreachable, "what answers there is no brig", "") }

// IsProblem tells whether an error is a problem of that code.
func IsProblem(err error, c Code) bool { return errors.Is(err, &Problem{Code: c}) }
