// Also one without the export: it is as good as one that does not answer.
export const unrelated = 1;
