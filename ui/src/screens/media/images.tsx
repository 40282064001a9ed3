import { useEffect, useState } from "react";
import type { Settings } from "../../api";
import type { ImageModels, Picture } from "../../api-media";
import { formatCost, t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Field, Pick } from "../../parts/field";
import { oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";
import { pictureAt } from "./blob";

const SIZES = ["1024x1024", "1536x1024", "1024x1536", "512x512", "256x256"];

interface Props {
  settings: Settings;
  onSettings(settings: Settings): void;
}

interface Made {
  address: string;
  prompt: string;
  picture: Picture;
}

/** Which model makes pictures and how large, and a place to try it. */
export function ImageSettings({ settings, onSettings }: Props) {
  const { api, backend } = useEngine();
  const models = useLoaded<ImageModels>((a) => a.imageModels(), ["connections_changed"]);
  const [prompt, setPrompt] = useState<string>(t.images.example);
  const [made, setMade] = useState<Made | null>(null);
  const [hidden, setHidden] = useState(false);
  const saving = useAct();
  const painting = useAct();
  useEffect(
    () => () => {
      if (made) URL.revokeObjectURL(made.address);
    },
    [made],
  );

  const change = (part: Partial<Settings>) =>
    void saving.run(async () => {
      onSettings(await api.change(part));
    });
  const paint = () =>
    void painting.run(async () => {
      setHidden(false);
      const picture = await api.paint(prompt.trim(), settings.imageModel ?? "", settings.imageSize ?? "");
      const blob = await pictureAt(backend, picture.url);
      setHidden(blob === null);
      setMade(blob && { address: URL.createObjectURL(blob), prompt, picture });
    });
  const list = models.value?.models ?? [];
  const chosen = settings.imageModel ?? "";
  const size = settings.imageSize ?? "";
  return (
    <section className="stack media" aria-labelledby="pictures">
      <h2 id="pictures">{t.images.title}</h2>
      <ErrorNote error={models.error} retry={models.reload} />
      {models.value && list.length === 0 ? <p className="quiet">{t.images.none}</p> : null}
      {list.length > 0 ? (
        <>
          <div className="limits">
            <Pick
              label={t.images.model}
              value={chosen}
              onValue={(ref) => change({ imageModel: ref === "" ? null : ref })}
            >
              <option value="">{t.images.auto}</option>
              {chosen === "" || list.some((one) => one.ref === chosen) ? null : (
                <option value={chosen}>{t.settings.notListed(oneLine(chosen, 120))}</option>
              )}
              {list.map((one) => (
                <option key={one.ref} value={one.ref}>
                  {oneLine(one.connectionName ? `${one.label} · ${one.connectionName}` : one.label, 120)}
                </option>
              ))}
            </Pick>
            <Pick label={t.images.size} value={size} onValue={(one) => change({ imageSize: one === "" ? null : one })}>
              <option value="">{t.images.sizeAuto}</option>
              {(size === "" || SIZES.includes(size) ? SIZES : [size, ...SIZES]).map((one) => (
                <option key={one} value={one}>
                  {oneLine(one, 20).replace("x", " × ")}
                </option>
              ))}
            </Pick>
          </div>
          <ErrorNote error={saving.error} />
          <form
            className="stack tight"
            onSubmit={(event) => {
              event.preventDefault();
              paint();
            }}
          >
            <Field
              label={t.images.prompt}
              hint={t.images.costs}
              value={prompt}
              onValue={setPrompt}
              maxLength={4000}
              autoComplete="off"
            />
            <div className="row wrap">
              <button type="submit" disabled={painting.busy || prompt.trim() === ""}>
                {t.images.try}
              </button>
              <span role="status" className="quiet">
                {painting.busy ? t.images.trying : null}
              </span>
            </div>
          </form>
          <ErrorNote error={painting.error} />
          {hidden ? (
            <p className="note bad" role="alert">
              {t.images.notShown}
            </p>
          ) : null}
          {made ? (
            <figure className="picture">
              <img src={made.address} alt={t.images.alt(oneLine(made.prompt, 200))} />
              <figcaption className="quiet">
                {t.images.made(
                  oneLine(made.picture.model, 120) || t.common.unnamed,
                  made.picture.cost === null ? t.images.costUnknown : t.images.cost(formatCost(made.picture.cost)),
                )}
              </figcaption>
            </figure>
          ) : null}
        </>
      ) : null}
    </section>
  );
}
