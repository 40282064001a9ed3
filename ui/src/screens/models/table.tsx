import { useState } from "react";
import type { Model, Price } from "../../api";
import { PRICES } from "../../api-models";
import { formatNumber, formatPrice, t } from "../../i18n";
import { readAmount } from "../../parts/amount";
import { ErrorNote } from "../../parts/error";
import { Field } from "../../parts/field";
import { Foreign, oneLine } from "../../parts/text";
import { useAct, useEngine } from "../../state";
import { found, MANY } from "./picker";

/** Context windows and prices of a connection's models, with where each comes from; each can be set by the person. */
export function ModelRows({ models, onChanged }: { models: Model[]; onChanged(): void }) {
  const [query, setQuery] = useState("");
  const [all, setAll] = useState(false);
  const many = models.length > MANY;
  const fit = found(models, query);
  const shown = all ? fit : fit.slice(0, MANY);
  return (
    <div className="stack tight">
      <p className="quiet">{t.modelTable.intro}</p>
      {many ? (
        <div className="short-field">
          <Field
            label={t.picker.search}
            type="search"
            value={query}
            onValue={setQuery}
            hint={<span aria-live="polite">{query.trim() === "" ? null : t.picker.fit(fit.length)}</span>}
          />
        </div>
      ) : null}
      <ul className="model-rows">
        {shown.map((model) => (
          <Row key={model.ref} model={model} onChanged={onChanged} />
        ))}
      </ul>
      {shown.length < fit.length ? (
        <div>
          <button type="button" className="small" onClick={() => setAll(true)}>
            {t.modelTable.showAll(fit.length)}
          </button>
        </div>
      ) : null}
    </div>
  );
}

const sourceOf = (source: string): string =>
  Object.hasOwn(t.modelTable.sources, source) ? `, ${t.modelTable.sources[source]}` : "";

const money = (dollars: number | null): string => (dollars === null ? t.modelTable.unknown : formatPrice(dollars));

function priceWords(price: Price | null): string {
  if (price === null) return t.modelTable.unknown;
  const words = t.modelTable.perMillion(money(price.input), money(price.output));
  const cached = price.cacheRead !== null || price.cacheWrite !== null;
  return cached ? `${words}; ${t.modelTable.cached(money(price.cacheRead), money(price.cacheWrite))}` : words;
}

function Row({ model, onChanged }: { model: Model; onChanged(): void }) {
  const [editing, setEditing] = useState(false);
  const name = oneLine(model.label, 80);
  const window = model.contextWindow;
  return (
    <li>
      <div className="row wrap">
        <div className="grow">
          <p className="strong">
            <bdi>{name}</bdi>
          </p>
          <dl className="model-facts">
            <dt>{t.modelTable.context}</dt>
            <dd>
              {window === null
                ? t.modelTable.unknown
                : `${t.modelTable.tokens(formatNumber(window))}${sourceOf(model.contextSource)}`}
            </dd>
            <dt>{t.modelTable.price}</dt>
            <dd>
              {priceWords(model.pricing)}
              {model.pricing === null ? null : sourceOf(model.priceSource)}
            </dd>
          </dl>
        </div>
        {editing ? null : (
          <button
            type="button"
            className="small"
            aria-label={t.modelTable.editOf(name)}
            onClick={() => setEditing(true)}
          >
            {t.modelTable.edit}
          </button>
        )}
      </div>
      {editing ? (
        <Override
          model={model}
          onClose={() => setEditing(false)}
          onChanged={() => {
            setEditing(false);
            onChanged();
          }}
        />
      ) : null}
    </li>
  );
}

const text = (n: number | null | undefined): string => (n === null || n === undefined ? "" : String(n));

function Override({ model, onClose, onChanged }: { model: Model; onClose(): void; onChanged(): void }) {
  const { api } = useEngine();
  const ownWindow = model.contextSource === "you";
  const ownPrice = model.priceSource === "you";
  const before = ownPrice ? model.pricing : null;
  const [window, setWindow] = useState(ownWindow ? text(model.contextWindow) : "");
  const [prices, setPrices] = useState<Record<keyof Price, string>>({
    input: text(before?.input),
    output: text(before?.output),
    cacheRead: text(before?.cacheRead),
    cacheWrite: text(before?.cacheWrite),
  });
  const [wrong, setWrong] = useState("");
  const act = useAct();
  const save = () => {
    const tokens = readAmount(window, true);
    const price = {} as Price;
    for (const name of PRICES) price[name] = readAmount(prices[name]);
    const bad = [tokens, ...Object.values(price)].some((n) => Number.isNaN(n)) || tokens === 0;
    const none = PRICES.every((name) => price[name] === null);
    const pair = none || (price.input !== null && price.output !== null);
    setWrong(bad ? t.modelTable.bad : pair ? "" : t.modelTable.badPair);
    if (bad || !pair) return;
    const given: Partial<Price> = {};
    for (const name of PRICES) if (price[name] !== null) given[name] = price[name];
    void act.run(async () => {
      if (tokens !== null || ownWindow) await api.setContext(model.ref, tokens);
      if (!none || ownPrice) await api.setPrice(model.ref, none ? null : given);
      onChanged();
    });
  };
  const reset = (what: () => Promise<void>) =>
    void act.run(async () => {
      await what();
      onChanged();
    });
  return (
    <form
      className="stack tight override"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <p className="quiet">
        <Foreign text={model.modelId || model.ref} longest={160} />
      </p>
      <div className="limits">
        <Field label={t.modelTable.contextField} inputMode="numeric" value={window} onValue={setWindow} />
        {PRICES.map((name) => (
          <Field
            key={name}
            label={t.modelTable.prices[name]}
            inputMode="decimal"
            value={prices[name]}
            onValue={(value) => setPrices({ ...prices, [name]: value })}
          />
        ))}
      </div>
      <p className="quiet">{t.modelTable.hint}</p>
      {wrong ? (
        <p className="note bad" role="alert">
          {wrong}
        </p>
      ) : null}
      <ErrorNote error={act.error} />
      <div className="row wrap">
        <button type="submit" className="small primary" disabled={act.busy}>
          {t.common.save}
        </button>
        <button type="button" className="small" onClick={onClose}>
          {t.common.cancel}
        </button>
        {ownWindow ? (
          <button
            type="button"
            className="small"
            disabled={act.busy}
            onClick={() => reset(() => api.setContext(model.ref, null))}
          >
            {t.modelTable.resetContext}
          </button>
        ) : null}
        {ownPrice ? (
          <button
            type="button"
            className="small"
            disabled={act.busy}
            onClick={() => reset(() => api.setPrice(model.ref, null))}
          >
            {t.modelTable.resetPrice}
          </button>
        ) : null}
      </div>
    </form>
  );
}
