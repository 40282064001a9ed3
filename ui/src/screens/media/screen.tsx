import type { Settings } from "../../api";
import { EmbeddingsSettings } from "./embeddings";
import { ImageSettings } from "./images";
import { SpeechSection } from "./speech";
import "./media.css";

interface Props {
  settings: Settings;
  onSettings(settings: Settings): void;
}

/** Settings → Speech and images. */
export function SpeechSettings({ settings, onSettings }: Props) {
  return (
    <>
      <ImageSettings settings={settings} onSettings={onSettings} />
      <SpeechSection settings={settings} onSettings={onSettings} />
      <EmbeddingsSettings />
    </>
  );
}
