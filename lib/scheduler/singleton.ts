import type { SchedulerOptions } from './options.ts'
import { Scheduler } from './scheduler.ts'

const KEY = Symbol.for('laxity.schedulers')

/**
 * The process's scheduler of this name, made on first use. Hosts that load a module again per request, or two copies of
 * this package, find the same one: its accounting is only right where all traffic goes through it.
 */
export function sharedScheduler(options: () => SchedulerOptions, name = 'default'): Scheduler {
  const holder = globalThis as { [KEY]?: Map<string, Scheduler> }
  holder[KEY] ??= new Map()
  const known = holder[KEY].get(name)
  if (known !== undefined) return known
  const made = new Scheduler(options())
  holder[KEY].set(name, made)
  return made
}
