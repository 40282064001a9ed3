// Gives back what it got: JSON in, an object in between, JSON out.
export const handleRoute = (req) => ({ json: req.body });
