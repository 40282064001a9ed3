import { type InputHTMLAttributes, type ReactNode, type Ref, useId } from "react";

interface FieldProps extends Omit<InputHTMLAttributes<HTMLInputElement>, "id" | "onChange" | "value"> {
  label: string;
  hint?: ReactNode;
  value: string;
  onValue(value: string): void;
  ref?: Ref<HTMLInputElement>;
}

/** A labelled input with its hint tied to it. */
export function Field({ label, hint, value, onValue, ...rest }: FieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        value={value}
        onChange={(event) => onValue(event.target.value)}
        aria-describedby={hint ? `${id}-hint` : undefined}
        {...rest}
      />
      {hint ? (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      ) : null}
    </div>
  );
}

interface PickProps {
  label: string;
  hint?: ReactNode;
  value: string;
  onValue(value: string): void;
  children: ReactNode;
}

export function Pick({ label, hint, value, onValue, children }: PickProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        value={value}
        onChange={(event) => onValue(event.target.value)}
        aria-describedby={hint ? `${id}-hint` : undefined}
      >
        {children}
      </select>
      {hint ? (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      ) : null}
    </div>
  );
}

interface LinesProps {
  label: string;
  hint?: ReactNode;
  value: string;
  onValue(value: string): void;
  rows?: number;
}

/** A labelled text of several lines. */
export function Lines({ label, hint, value, onValue, rows = 4 }: LinesProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        value={value}
        spellCheck={false}
        onChange={(event) => onValue(event.target.value)}
        aria-describedby={hint ? `${id}-hint` : undefined}
      />
      {hint ? (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      ) : null}
    </div>
  );
}
