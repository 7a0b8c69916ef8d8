// Style sheets go into app.css.
declare module "*.css";
