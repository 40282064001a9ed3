import { Component, type ReactNode, useState } from "react";
import { CallError } from "../api";
import { t } from "../i18n";
import { useEngine } from "../state";
import { ForeignBlock } from "./text";

/** Copies a text; where the clipboard is closed, through a selection. Says whether it worked. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const worked = document.execCommand("copy");
    area.remove();
    return worked;
  }
}

/** `name` is for screen readers, where several buttons would say the same. */
export function CopyButton({
  text,
  label = t.common.copyDetails,
  name,
}: {
  text: string;
  label?: string;
  name?: string;
}) {
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      className="small"
      aria-label={copied ? undefined : name}
      onClick={() => void copyText(text).then(setCopied)}
    >
      <span aria-live="polite">{copied ? t.common.copied : label}</span>
    </button>
  );
}

interface Words {
  what: string;
  todo: string;
  raw: string;
}

function words(error: unknown, desktop: boolean): Words {
  if (error instanceof CallError) {
    if (error.code === "unreachable") {
      const todo = desktop ? t.error.unreachableDesktop : t.error.unreachableTodo;
      return { what: t.error.unreachable, todo, raw: error.raw };
    }
    const unsaid =
      error.status >= 200 && error.status < 300 ? t.error.notJson(error.status) : t.error.status(error.status);
    return { what: error.message || unsaid, todo: "", raw: error.raw };
  }
  if (error instanceof Error) {
    const raw = "raw" in error && typeof error.raw === "string" ? error.raw : `${error.name}: ${error.message}`;
    return { what: error.message || t.error.crashed, todo: "", raw };
  }
  return { what: String(error), todo: "", raw: String(error) };
}

interface NoteProps {
  error: unknown;
  /** What happened, when the screen knows better than the cause does. The cause stays in the details. */
  what?: string | undefined;
  kept?: string;
  todo?: string;
  retry?: () => void;
}

/** What happened, what was kept, what to do; the cause one click away. Shows nothing without an error. */
export function ErrorNote({ error, what, kept, todo, retry }: NoteProps) {
  const { backend } = useEngine();
  if (error === null || error === undefined) return null;
  const said = words(error, backend.kind === "desktop");
  const next = todo ?? said.todo;
  return (
    <div className="note bad" role="alert">
      <p className="strong">
        <ForeignBlock text={what ?? said.what} />
      </p>
      {kept ? <p>{kept}</p> : null}
      {next ? <p>{next}</p> : null}
      <div className="row wrap">
        {retry ? (
          <button type="button" className="small" onClick={retry}>
            {t.common.retry}
          </button>
        ) : null}
        <CopyButton text={said.raw} />
      </div>
      <details>
        <summary>{t.common.details}</summary>
        <ForeignBlock className="raw" text={said.raw} />
      </details>
    </div>
  );
}

/** Keeps a screen that cannot be drawn from taking the launcher with it. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <main className="narrow" id="content">
        <div className="note bad" role="alert">
          <p className="strong">{t.error.crashed}</p>
          <p>{t.error.crashedTodo}</p>
          <div className="row wrap">
            <button type="button" onClick={() => location.reload()}>
              {t.error.reload}
            </button>
            <CopyButton text={error instanceof Error ? (error.stack ?? error.message) : String(error)} />
          </div>
        </div>
      </main>
    );
  }
}
