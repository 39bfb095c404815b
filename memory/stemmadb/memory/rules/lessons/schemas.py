"""The schemas of the three requests, as the contract gives them. Nothing is added: unknown members are accepted."""

from __future__ import annotations

from typing import Any, Final

import msgspec

READ_TEXT: Final = """\
{
  "$id": "memory.read.request",
  "type": "object",
  "required": ["op", "repo_id", "mode", "query"],
  "properties": {
    "op": { "const": "read" },
    "repo_id": { "type": "string" },
    "mode": { "enum": ["ambient", "targeted"] },
    "query": { "type": "string", "minLength": 1 },
    "include_global": { "type": "boolean", "default": true },
    "kinds": {
      "type": "array",
      "items": { "enum": ["problem", "solution", "failed_tactic", "fact", "preference", "change"] },
      "uniqueItems": true
    },
    "limit": { "type": "integer", "minimum": 1, "maximum": 100, "default": 20 },
    "expand": {
      "type": "object",
      "properties": {
        "semantic_hops": { "type": "integer", "minimum": 0, "maximum": 3, "default": 2 },
        "include_problem_links": { "type": "boolean", "default": true },
        "include_update_links": { "type": "boolean", "default": true }
      }
    }
  }
}
"""
WRITE_TEXT: Final = """\
{
  "$id": "memory.write.request",
  "type": "object",
  "required": ["op", "repo_id", "memory"],
  "properties": {
    "op": { "const": "write" },
    "repo_id": { "type": "string" },
    "memory": {
      "type": "object",
      "required": ["text", "scope", "kind", "confidence"],
      "properties": {
        "text": { "type": "string", "minLength": 1 },
        "scope": { "enum": ["repo", "global"] },
        "kind": { "enum": ["problem", "solution", "failed_tactic", "fact", "preference", "change"] },
        "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
        "rationale": { "type": "string" },
        "links": {
          "type": "object",
          "properties": {
            "problem_id": { "type": "string" },
            "related_memory_ids": { "type": "array", "items": { "type": "string" } },
            "change_targets": { "type": "array", "items": { "type": "string" } }
          }
        },
        "evidence_refs": { "type": "array", "items": { "type": "string" } }
      }
    }
  }
}
"""
UPDATE_TEXT: Final = """\
{
  "$id": "memory.update.request",
  "type": "object",
  "required": ["op", "repo_id", "memory_id", "mode", "updates"],
  "properties": {
    "op": { "const": "update" },
    "repo_id": { "type": "string" },
    "memory_id": { "type": "string" },
    "mode": { "enum": ["dry_run", "commit"] },
    "updates": {
      "type": "object",
      "properties": {
        "truth": {
          "type": "object",
          "required": ["target", "confidence", "rationale", "evidence_refs"],
          "properties": {
            "target": { "type": "number", "minimum": 0, "maximum": 1 },
            "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
            "rationale": { "type": "string" },
            "evidence_refs": { "type": "array", "items": { "type": "string" }, "minItems": 1 }
          }
        },
        "utility": {
          "type": "object",
          "required": ["target", "confidence", "rationale"],
          "properties": {
            "target": { "type": "number", "minimum": 0, "maximum": 1 },
            "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
            "rationale": { "type": "string" },
            "context_problem_id": { "type": "string" },
            "evidence_refs": { "type": "array", "items": { "type": "string" } }
          }
        }
      },
      "anyOf": [{ "required": ["truth"] }, { "required": ["utility"] }]
    }
  }
}
"""
SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "read": msgspec.json.decode(READ_TEXT),
    "write": msgspec.json.decode(WRITE_TEXT),
    "update": msgspec.json.decode(UPDATE_TEXT),
}
"""By the value of `op`."""
