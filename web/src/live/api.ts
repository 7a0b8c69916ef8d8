// Requests to the server.  Errors are words for people.
import type { Action } from "../model/states";
import { visibleMarks } from "../model/text";
import type { Changed } from "../model/types";
import { credentials } from "./session";

export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** What the server's clock is ahead of this one, in ms: a tunnel may lead to another machine. */
let skew = 0;
export const serverNow = (): number => Date.now() + skew;

function learnSkew(response: Response): void {
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const difference = date + 500 - Date.now();
  skew = Math.abs(difference) > 2000 ? difference : 0;
}

async function answer<T>(response: Response): Promise<T> {
  learnSkew(response);
  const text = await response.text();
  let value: unknown = null;
  try {
    value = JSON.parse(visibleMarks(text));
  } catch {
    // Told below: what is no JSON is no answer.
  }
  if (response.ok && value !== null) return value as T;
  const error = (value as { error?: string } | null)?.error;
  if (response.status === 401) throw new ApiError(401, "This browser is not logged in.");
  throw new ApiError(response.status, error ?? `The server returned status ${response.status}.`);
}

async function ask<T>(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "omit", ...init, headers: { ...credentials(), ...init.headers } });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "pergpu serve does not answer.");
  }
  return answer<T>(response);
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => ask<T>(path, signal ? { signal } : {});

export function act(action: Action, jobs: readonly number[], kill = false): Promise<Changed> {
  return ask<Changed>(`/api/actions/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ jobs, kill }),
  });
}
