package server

import "brig/orchestrator/api"

// KeyPart makes a POST safe to repeat. The service keeps key, request and answer.
type KeyPart struct {
	Key string `header:"Idempotency-Key" maxLength:"255" pattern:"^[!-~]([ -~]*[!-~])?$" doc:"the same key and request get the first answer for 24 hours" example:"0b6c1f0e-41a4-4c9b-9b35-0a2f2f9f7a10"`
}

func (k KeyPart) options() api.RunOptions { return api.RunOptions{Key: k.Key} }
