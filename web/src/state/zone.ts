import { storedChoice } from './stored';

export const zones = ['local', 'utc'] as const;
export const zone = storedChoice('icecore.zone', zones);
