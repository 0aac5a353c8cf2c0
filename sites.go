package shoal

// sites is the number of call instructions in callAs; see whose.go.
const sites = 256

// callAs calls f, from the call instruction of the site. The compiler makes
// one indexed jump of the switch.
//
//go:noinline
func callAs(site uint8, f func()) {
	switch site {
	case 1:
		f()
	case 2:
		f()
	case 3:
		f()
	case 4:
		f()
	case 5:
		f()
	case 6:
		f()
	case 7:
		f()
	case 8:
		f()
	case 9:
		f()
	case 10:
		f()
	case 11:
		f()
	case 12:
		f()
	case 13:
		f()
	case 14:
		f()
	case 15:
		f()
	case 16:
		f()
	case 17:
		f()
	case 18:
		f()
	case 19:
		f()
	case 20:
		f()
	case 21:
		f()
	case 22:
		f()
	case 23:
		f()
	case 24:
		f()
	case 25:
		f()
	case 26:
		f()
	case 27:
		f()
	case 28:
		f()
	case 29:
		f()
	case 30:
		f()
	case 31:
		f()
	case 32:
		f()
	case 33:
		f()
	case 34:
		f()
	case 35:
		f()
	case 36:
		f()
	case 37:
		f()
	case 38:
		f()
	case 39:
		f()
	case 40:
		f()
	case 41:
		f()
	case 42:
		f()
	case 43:
		f()
	case 44:
		f()
	case 45:
		f()
	case 46:
		f()
	case 47:
		f()
	case 48:
		f()
	case 49:
		f()
	case 50:
		f()
	case 51:
		f()
	case 52:
		f()
	case 53:
		f()
	case 54:
		f()
	case 55:
		f()
	case 56:
		f()
	case 57:
		f()
	case 58:
		f()
	case 59:
		f()
	case 60:
		f()
	case 61:
		f()
	case 62:
		f()
	case 63:
		f()
	case 64:
		f()
	case 65:
		f()
	case 66:
		f()
	case 67:
		f()
	case 68:
		f()
	case 69:
		f()
	case 70:
		f()
	case 71:
		f()
	case 72:
		f()
	case 73:
		f()
	case 74:
		f()
	case 75:
		f()
	case 76:
		f()
	case 77:
		f()
	case 78:
		f()
	case 79:
		f()
	case 80:
		f()
	case 81:
		f()
	case 82:
		f()
	case 83:
		f()
	case 84:
		f()
	case 85:
		f()
	case 86:
		f()
	case 87:
		f()
	case 88:
		f()
	case 89:
		f()
	case 90:
		f()
	case 91:
		f()
	case 92:
		f()
	case 93:
		f()
	case 94:
		f()
	case 95:
		f()
	case 96:
		f()
	case 97:
		f()
	case 98:
		f()
	case 99:
		f()
	case 100:
		f()
	case 101:
		f()
	case 102:
		f()
	case 103:
		f()
	case 104:
		f()
	case 105:
		f()
	case 106:
		f()
	case 107:
		f()
	case 108:
		f()
	case 109:
		f()
	case 110:
		f()
	case 111:
		f()
	case 112:
		f()
	case 113:
		f()
	case 114:
		f()
	case 115:
		f()
	case 116:
		f()
	case 117:
		f()
	case 118:
		f()
	case 119:
		f()
	case 120:
		f()
	case 121:
		f()
	case 122:
		f()
	case 123:
		f()
	case 124:
		f()
	case 125:
		f()
	case 126:
		f()
	case 127:
		f()
	case 128:
		f()
	case 129:
		f()
	case 130:
		f()
	case 131:
		f()
	case 132:
		f()
	case 133:
		f()
	case 134:
		f()
	case 135:
		f()
	case 136:
		f()
	case 137:
		f()
	case 138:
		f()
	case 139:
		f()
	case 140:
		f()
	case 141:
		f()
	case 142:
		f()
	case 143:
		f()
	case 144:
		f()
	case 145:
		f()
	case 146:
		f()
	case 147:
		f()
	case 148:
		f()
	case 149:
		f()
	case 150:
		f()
	case 151:
		f()
	case 152:
		f()
	case 153:
		f()
	case 154:
		f()
	case 155:
		f()
	case 156:
		f()
	case 157:
		f()
	case 158:
		f()
	case 159:
		f()
	case 160:
		f()
	case 161:
		f()
	case 162:
		f()
	case 163:
		f()
	case 164:
		f()
	case 165:
		f()
	case 166:
		f()
	case 167:
		f()
	case 168:
		f()
	case 169:
		f()
	case 170:
		f()
	case 171:
		f()
	case 172:
		f()
	case 173:
		f()
	case 174:
		f()
	case 175:
		f()
	case 176:
		f()
	case 177:
		f()
	case 178:
		f()
	case 179:
		f()
	case 180:
		f()
	case 181:
		f()
	case 182:
		f()
	case 183:
		f()
	case 184:
		f()
	case 185:
		f()
	case 186:
		f()
	case 187:
		f()
	case 188:
		f()
	case 189:
		f()
	case 190:
		f()
	case 191:
		f()
	case 192:
		f()
	case 193:
		f()
	case 194:
		f()
	case 195:
		f()
	case 196:
		f()
	case 197:
		f()
	case 198:
		f()
	case 199:
		f()
	case 200:
		f()
	case 201:
		f()
	case 202:
		f()
	case 203:
		f()
	case 204:
		f()
	case 205:
		f()
	case 206:
		f()
	case 207:
		f()
	case 208:
		f()
	case 209:
		f()
	case 210:
		f()
	case 211:
		f()
	case 212:
		f()
	case 213:
		f()
	case 214:
		f()
	case 215:
		f()
	case 216:
		f()
	case 217:
		f()
	case 218:
		f()
	case 219:
		f()
	case 220:
		f()
	case 221:
		f()
	case 222:
		f()
	case 223:
		f()
	case 224:
		f()
	case 225:
		f()
	case 226:
		f()
	case 227:
		f()
	case 228:
		f()
	case 229:
		f()
	case 230:
		f()
	case 231:
		f()
	case 232:
		f()
	case 233:
		f()
	case 234:
		f()
	case 235:
		f()
	case 236:
		f()
	case 237:
		f()
	case 238:
		f()
	case 239:
		f()
	case 240:
		f()
	case 241:
		f()
	case 242:
		f()
	case 243:
		f()
	case 244:
		f()
	case 245:
		f()
	case 246:
		f()
	case 247:
		f()
	case 248:
		f()
	case 249:
		f()
	case 250:
		f()
	case 251:
		f()
	case 252:
		f()
	case 253:
		f()
	case 254:
		f()
	case 255:
		f()
	default:
		f()
	}
}
