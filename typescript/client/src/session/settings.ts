// How patient a client is, and how much it takes on: every bound has a name.
export interface Settings {
  /** Undecided commits; past it a transaction is refused with `limit_exceeded` and nothing is applied. */
  readonly pendingMax: number;
  readonly pendingCharactersMax: number;
  /** How long a request waits for an answer, a lost connection and its return included. */
  readonly askMs: number;
  readonly openMs: number;
  /** A connection on which nothing came for so long is asked for a sign of life (RESUME-5). */
  readonly heartbeatMs: number;
  readonly deadMs: number;
  readonly firstPauseMs: number;
  readonly mostPauseMs: number;
  /** How long closing waits for undecided commits. */
  readonly closeMs: number;
}

export const DEFAULTS: Settings = {
  pendingMax: 100_000, pendingCharactersMax: 128 * 1024 * 1024, askMs: 30_000, openMs: 10_000, heartbeatMs: 10_000, deadMs: 10_000,
  firstPauseMs: 100, mostPauseMs: 10_000, closeMs: 5_000,
};
