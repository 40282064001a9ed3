// One whose offer fails takes nothing from the others.
export function appTools() {
  throw new Error("offers nothing");
}
