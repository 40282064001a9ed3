import { useEffect, useState } from "react";

/** An answer counts only this long after the question appeared: a page may time it to meet a click meant for itself. */
const ARM_MS = 600;

/** True a moment after what uses it appeared. */
export function useArmed(): boolean {
  const [armed, setArmed] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setArmed(true), ARM_MS);
    return () => clearTimeout(timer);
  }, []);
  return armed;
}
