import { useState } from "react";
import type { Model } from "../../api";
import { t } from "../../i18n";
import { Field, Pick } from "../../parts/field";
import { ModelOptions } from "../../parts/models";

/** With more models than this, a search stands above the list. */
export const MANY = 30;

/** The models whose name or connection has all the words of `query`. */
export function found<T extends { label: string; modelId?: string; connectionName: string }>(
  models: readonly T[],
  query: string,
): readonly T[] {
  const words = query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return models;
  return models.filter((model) => {
    const text = `${model.label} ${model.modelId ?? ""} ${model.connectionName}`.toLocaleLowerCase();
    return words.every((word) => text.includes(word));
  });
}

interface Props {
  label: string;
  hint?: string;
  models: Model[];
  chosen: string;
  onChoose(ref: string): void;
}

/** A list of models to choose from; a long one can be searched. */
export function ModelPick({ label, hint, models, chosen, onChoose }: Props) {
  const [query, setQuery] = useState("");
  const many = models.length > MANY;
  const fit = many ? found(models, query) : models;
  const now = models.filter((model) => model.ref === chosen && !fit.includes(model));
  return (
    <div className="model-pick">
      <Pick label={label} hint={hint} value={chosen} onValue={onChoose}>
        <ModelOptions models={[...now, ...fit]} chosen={chosen} />
      </Pick>
      {many ? (
        <Field
          label={t.picker.search}
          type="search"
          value={query}
          onValue={setQuery}
          hint={<span aria-live="polite">{query.trim() === "" ? null : t.picker.fit(fit.length)}</span>}
        />
      ) : null}
    </div>
  );
}
