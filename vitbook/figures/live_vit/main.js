// LiveViT: a trained Vision Transformer that runs where it is read.
import { figure } from "../kit/figure.js";
import { buildLiveViT } from "./live.js";

export default figure(buildLiveViT);
