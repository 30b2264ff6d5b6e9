{-# LANGUAGE OverloadedStrings #-}

-- | Python and Node as oracles for JSON documents. Each runs once, and answers one document after the other.
--
-- A value is compared in a form of its own ('canonical'), in which two documents are the same if they mean the same:
-- numbers are doubles, of a key that is there twice the last value counts, and the order of keys does not.
module Oracle
  ( -- * Oracles
    Oracle,
    oracleName,
    python,
    node,
    stop,
    withOracle,

    -- * Questions
    Answer (..),
    ask,

    -- * Values
    Canon (..),
    canonical,
  )
where

import Control.Concurrent.MVar (MVar, newMVar, withMVar)
import Control.Exception (IOException, try)
import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Lazy qualified as Lazy
import Data.List (intersperse, sortOn)
import Data.Map.Strict qualified as Map
import Data.Text (Text)
import Data.Text.Encoding qualified as Text
import System.IO (Handle, hClose, hFlush)
import System.Process
import Test.Tasty (TestTree, withResource)

-- | A program that answers.
data Oracle = Oracle
  { -- | @python3@ or @node@.
    oracleName :: String,
    -- | One question at a time.
    oracleLock :: MVar (),
    oracleTo :: Handle,
    oracleFrom :: Handle,
    oracleProcess :: ProcessHandle
  }

-- | Its answer.
data Answer
  = -- | Not JSON, or not UTF-8.
    Invalid
  | -- | JSON; the value in its canonical form.
    Valid ByteString
  deriving stock (Eq, Show)

-- | Python's json module. NaN and Infinity, which it takes for numbers, are refused. With PYTHONUNBUFFERED set, which -E ignores, a
-- stop during a long answer would cost the rest of it.
python :: IO Oracle
python = start "python3" ["-E", "-c", pythonProgram]

-- | Node's JSON.parse.
node :: IO Oracle
node = start "node" ["--stack-size=50000", "-e", nodeProgram]

start :: String -> [String] -> IO Oracle
start name arguments = do
  started <- try (createProcess (proc name arguments) {std_in = CreatePipe, std_out = CreatePipe})
  lock <- newMVar ()
  case started of
    Right (Just to, Just from, _, process) -> pure (Oracle name lock to from process)
    Left e -> fail ("cannot run " <> name <> ", an oracle of these tests: " <> show (e :: IOException) <> "\n  It is installed by: make setup")
    Right _ -> fail ("no pipes to " <> name)

-- | End it.
stop :: Oracle -> IO ()
stop oracle = do
  hClose (oracleTo oracle)
  hClose (oracleFrom oracle)
  void (waitForProcess (oracleProcess oracle))

-- | For the tests of a tree.
withOracle :: IO Oracle -> (IO Oracle -> TestTree) -> TestTree
withOracle make = withResource make stop

-- | Its answer to these bytes.
ask :: Oracle -> ByteString -> IO Answer
ask oracle document = withMVar (oracleLock oracle) $ \() -> do
  reply <- try $ do
    Builder.hPutBuilder (oracleTo oracle) (Builder.byteStringHex document <> "\n")
    hFlush (oracleTo oracle)
    Char8.hGetLine (oracleFrom oracle)
  case reply of
    Right "invalid" -> pure Invalid
    Right line | Just value <- Char8.stripPrefix "valid " line -> pure (Valid value)
    Right line -> fail (oracleName oracle <> ": " <> Char8.unpack line)
    Left e -> fail (oracleName oracle <> " ended: " <> show (e :: IOException) <> "; the document was " <> show (ByteString.take 200 document))

-- | A value, for comparing.
data Canon
  = CNull
  | CBool Bool
  | CNumber Double
  | CString Text
  | CArray [Canon]
  | CObject [(Text, Canon)]
  deriving stock (Eq, Show)

-- | As the oracles write it: @n@, @t@, @f@, @#@ and a double's 16 hexadecimal digits, @\"@ and a string's UTF-16 in
-- hexadecimal, @[,]@ and @{:,}@ with the keys in order. A string with half a surrogate pair, which no 'Text' has,
-- comes from the oracles only.
canonical :: Canon -> ByteString
canonical = Lazy.toStrict . Builder.toLazyByteString . value
  where
    value = \case
      CNull -> "n"
      CBool True -> "t"
      CBool False -> "f"
      CNumber x -> "#" <> Builder.doubleHexFixed x
      CString text -> "\"" <> units text
      CArray xs -> "[" <> commas (map value xs) <> "]"
      CObject fields -> "{" <> commas [units k <> ":" <> value x | (k, x) <- sorted fields] <> "}"
    commas = mconcat . intersperse ","
    sorted = sortOn (Text.encodeUtf16BE . fst) . Map.toList . Map.fromList
    units = Builder.byteStringHex . Text.encodeUtf16BE

pythonProgram :: String
pythonProgram =
  unlines
    [ "import json, struct, sys, threading",
      "def constant(name): raise ValueError(name)",
      "def units(s): return s.encode('utf-16-be', 'surrogatepass').hex()",
      "def value(x):",
      "    if x is None: return 'n'",
      "    if x is True: return 't'",
      "    if x is False: return 'f'",
      "    if isinstance(x, float): return '#' + struct.pack('>d', x).hex()",
      "    if isinstance(x, str): return '\"' + units(x)",
      "    if isinstance(x, list): return '[' + ','.join(map(value, x)) + ']'",
      "    return '{' + ','.join(k + ':' + v for k, v in sorted((units(k), value(v)) for k, v in x.items())) + '}'",
      "def answer(line):",
      "    try: return 'valid ' + value(json.loads(bytes.fromhex(line).decode('utf-8'), parse_int=float, parse_constant=constant))",
      "    except ValueError: return 'invalid'",
      "    except RecursionError: return 'too deep'",
      "def main():",
      "    for line in sys.stdin: print(answer(line), flush=True)",
      "sys.setrecursionlimit(100000)",
      "threading.stack_size(512 * 1024 * 1024)",
      "thread = threading.Thread(target=main)",
      "thread.start()",
      "thread.join()"
    ]

nodeProgram :: String
nodeProgram =
  unlines
    [ "const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });",
      "const word = new DataView(new ArrayBuffer(8));",
      "function units(s) {",
      "  let out = '';",
      "  for (let i = 0; i < s.length; i++) out += s.charCodeAt(i).toString(16).padStart(4, '0');",
      "  return out;",
      "}",
      "function value(x) {",
      "  if (x === null) return 'n';",
      "  if (x === true) return 't';",
      "  if (x === false) return 'f';",
      "  if (typeof x === 'number') {",
      "    word.setFloat64(0, x);",
      "    return '#' + word.getBigUint64(0).toString(16).padStart(16, '0');",
      "  }",
      "  if (typeof x === 'string') return '\"' + units(x);",
      "  if (Array.isArray(x)) return '[' + x.map(value).join(',') + ']';",
      "  const fields = Object.keys(x).map((k) => [units(k), value(x[k])]);",
      "  fields.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));",
      "  return '{' + fields.map((f) => f[0] + ':' + f[1]).join(',') + '}';",
      "}",
      "function answer(line) {",
      "  let parsed;",
      "  try { parsed = JSON.parse(decoder.decode(Buffer.from(line, 'hex'))); }",
      "  catch (e) { return e instanceof RangeError ? 'too deep' : 'invalid'; }",
      "  try { return 'valid ' + value(parsed); }",
      "  catch (e) { return 'too deep'; }",
      "}",
      "const fs = require('fs');",
      "let rest = '';",
      "const block = Buffer.alloc(1 << 16);",
      "for (;;) {",
      "  const n = fs.readSync(0, block);",
      "  if (n === 0) break;",
      "  const lines = (rest + block.latin1Slice(0, n)).split('\\n');",
      "  rest = lines.pop();",
      "  for (const line of lines) fs.writeSync(1, answer(line) + '\\n');",
      "}"
    ]
