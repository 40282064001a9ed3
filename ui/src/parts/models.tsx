import type { Model } from "../api";
import { t } from "../i18n";
import { oneLine } from "./text";

/** The options of a model picker, by connection; the demo is always labelled as canned. */
export function ModelOptions({ models, chosen }: { models: Model[]; chosen: string }) {
  const groups = new Map<string, Model[]>();
  for (const model of models) {
    const group = model.canned ? t.settings.demoGroup : model.connectionName;
    groups.set(group, [...(groups.get(group) ?? []), model]);
  }
  const listed = chosen === "" || models.some((model) => model.ref === chosen);
  return (
    <>
      {chosen === "" ? <option value="">{t.settings.noModel}</option> : null}
      {listed ? null : <option value={chosen}>{t.settings.notListed(oneLine(chosen, 120))}</option>}
      {[...groups].map(([name, group]) => (
        <optgroup key={name} label={oneLine(name, 80) || t.common.unnamed}>
          {group.map((model) => (
            <option key={model.ref} value={model.ref}>
              {oneLine(model.label, 120)}
            </option>
          ))}
        </optgroup>
      ))}
    </>
  );
}
