/** What a command may use of the process. */
export interface Context {
  /** Aborted by Ctrl-C. */
  signal: AbortSignal
  /** Writes the whole answer to standard output: called once, when nothing can fail any more. */
  print(text: string): Promise<void>
}
