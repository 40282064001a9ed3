export const handleRoute = (req) => ({ json: { path: req.path } });
