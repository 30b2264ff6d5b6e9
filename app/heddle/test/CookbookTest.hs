{-# LANGUAGE OverloadedStrings #-}

-- | The recipes of docs/manual/cookbook.md. Files and commands are taken from the page, get other folders and ports, and are run with
-- the programs that they name, so that the page says what works.
module CookbookTest (tests) where

import Control.Exception (IOException, bracket, try)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isSpace)
import Data.List (dropWhileEnd, find, intercalate, isInfixOf, isPrefixOf, stripPrefix)
import Data.Maybe (fromMaybe)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Ovs qualified as Ovs
import Heddle.Testkit.Watchdog
import Network.Socket
import Program
import System.Directory (createDirectoryIfMissing, findExecutable)
import System.Exit (ExitCode (..))
import System.FilePath (takeDirectory, (</>))
import System.IO (Handle, IOMode (..), hGetLine, withBinaryFile)
import System.Posix.Files (setFileMode)
import System.Posix.User (getEffectiveGroupID, getEffectiveUserID, getGroupEntryForID, getUserEntryForID, groupName, userName)
import System.Process hiding (shell)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, testCaseInfo, (@?=))

tests :: TestTree
tests =
  testGroup
    "the cookbook"
    [ testCase "every recipe has a test" everyRecipe,
      testCase "static site" staticSite,
      testCase "single-page application" application,
      needing "php-fpm8.2" "PHP" php,
      testCase "Git server" git,
      testCase "application with WebSocket" webSocket,
      testCase "several hosts with TLS" hosts,
      testCase "behind Cloudflare" cloudflare,
      needing "haproxy" "behind haproxy" haproxy,
      testCaseInfo "container" container,
      needing "systemd-analyze" "systemd" systemd
    ]

-- A test with a program that may be missing.
needing :: String -> String -> IO () -> TestTree
needing program name act = testCaseInfo name $ do
  found <- findExecutable program
  maybe (pure (program ++ " is not installed: left out")) (const ("" <$ act)) found

-- The page --------------------------------------------------------------------------------

-- | A block of the page: its language, and the path that its first line names, if it is a file.
data Block = Block
  { blockLanguage :: !String,
    blockPath :: !(Maybe FilePath),
    blockLines :: ![String]
  }

-- | The blocks below a heading.
type Recipe = [Block]

page :: IO [(String, Recipe)]
page = sections . lines . C.unpack <$> B.readFile "../../docs/manual/cookbook.md"
  where
    sections text = case dropWhile (not . isPrefixOf "## ") text of
      [] -> []
      heading : rest -> let (body, more) = break (isPrefixOf "## ") rest in (drop 3 heading, blocks body) : sections more
    blocks text = case dropWhile (not . isPrefixOf "```") text of
      [] -> []
      fence : rest -> let (body, more) = break (== "```") rest in block (drop 3 fence) body : blocks (drop 1 more)
    block language = \case
      first : rest | language /= "console", mark : ' ' : path <- first, mark `elem` ("#;" :: String), '/' `elem` path -> Block language (Just path) rest
      body -> Block language Nothing body

recipe :: String -> IO Recipe
recipe name = page >>= maybe (unexpected ("a recipe '" ++ name ++ "' in the cookbook") "none") pure . lookup name

everyRecipe :: IO ()
everyRecipe = do
  names <- map fst <$> page
  names @?= ["Static site", "Single-page application", "PHP", "Git server", "Application with WebSocket", "Several hosts with TLS", "Behind Cloudflare", "Behind haproxy", "Container", "systemd"]

-- | What stands for what the page says. The first that matches at a place counts.
type Changes = [(String, String)]

changed :: Changes -> String -> String
changed changes = go
  where
    go text = case (text, [to ++ go rest | (from, to) <- changes, Just rest <- [stripPrefix from text]]) of
      (_, new : _) -> new
      (c : rest, []) -> c : go rest
      ("", []) -> ""

-- | A recipe with these changes, all of which must apply.
cooked :: String -> Changes -> IO Recipe
cooked name changes = do
  blocks <- recipe name
  let text = unlines (concat [maybe [] pure (blockPath b) ++ blockLines b | b <- blocks])
  forM_ changes $ \(from, _) -> unless (from `isInfixOf` text) (unexpected ("'" ++ from ++ "' in the recipe '" ++ name ++ "'") text)
  pure [Block (blockLanguage b) (changed changes <$> blockPath b) (map (changed changes) (blockLines b)) | b <- blocks]

-- | Write the recipe's files.
writeFiles :: Recipe -> IO ()
writeFiles blocks = forM_ blocks $ \block -> forM_ (blockPath block) $ \path -> do
  createDirectoryIfMissing True (takeDirectory path)
  writeFile path (unlines (blockLines block))

-- | Run the commands that come to an end, whose first line begins like this.
runCommands :: String -> Recipe -> IO ()
runCommands beginning blocks = case [unlines (blockLines b) | b <- commands blocks, any (isPrefixOf beginning) (take 1 (blockLines b))] of
  [text] -> shell [] text >>= \ended -> unless (endedCode ended == ExitSuccess) (unexpected (text ++ " to succeed") (show ended))
  other -> unexpected ("one block that begins with " ++ beginning) (show other)

commands :: Recipe -> [Block]
commands = filter (\b -> blockLanguage b == "sh" && null (blockPath b))

shell :: [(String, String)] -> String -> IO Ended
shell environment text = runToolIn environment "sh" ["-e", "-c", text]

-- | Serve as the recipe says, on a free port unless it names an address.
serving :: Recipe -> (Program -> IO a) -> IO a
serving blocks act = case [text | b <- commands blocks, let text = unlines (blockLines b), "heddle serve" `isPrefixOf` text] of
  [text] -> serveBy [] (if "--listen" `isInfixOf` text then text else dropWhileEnd isSpace text ++ " --listen 127.0.0.1:0") act
  other -> unexpected "one command 'heddle serve'" (show other)

serveBy :: [(String, String)] -> String -> (Program -> IO a) -> IO a
serveBy environment text = withProgramIn environment ("/bin/sh", ["-c", "exec " ++ text])

-- | Try the recipe's examples, with another address for that of the page.
trying :: Recipe -> String -> String -> FilePath -> IO ()
trying blocks address actual directory = do
  forM_ (examples blocks) $ \(command, _) -> unless (address `isInfixOf` command) (unexpected ("'" ++ address ++ "' in the example") command)
  tryingAll [(changed [(address, actual)] command, expected) | (command, expected) <- examples blocks] directory

tryingAll :: [(String, String)] -> FilePath -> IO ()
tryingAll given directory = do
  when (null given) (unexpected "examples" "none")
  forM_ given $ \(command, expected) -> do
    let own = [("HOME", directory), ("GIT_AUTHOR_NAME", "T"), ("GIT_AUTHOR_EMAIL", "t@example.org"), ("GIT_COMMITTER_NAME", "T"), ("GIT_COMMITTER_EMAIL", "t@example.org"), ("GIT_CONFIG_NOSYSTEM", "1")]
    ended <- shell own ("cd " ++ directory ++ "\n" ++ command)
    (command, dropWhileEnd (== '\n') (C.unpack (endedOut ended)), endedErr ended) @?= (command, expected, "")

-- | Commands, and what they print.
examples :: Recipe -> [(String, String)]
examples = concatMap (pairs . blockLines) . filter ((== "console") . blockLanguage)
  where
    pairs = \case
      ('$' : ' ' : command) : rest -> let (output, more) = break (isPrefixOf "$ ") rest in (command, dropWhileEnd (== '\n') (unlines output)) : pairs more
      [] -> []
      other -> error ("an example that begins with " ++ show (take 1 other))

urlOf :: Program -> String
urlOf program = fromMaybe (error "no URL") (find ("http" `isPrefixOf`) (programUrls program))

-- Programs beside ---------------------------------------------------------------------------

-- | Run a program of others until the action ends; it must say or do something first.
beside :: FilePath -> [String] -> (Maybe Handle -> IO a) -> (a -> IO b) -> IO b
beside program arguments ready act = withBinaryFile "/dev/null" WriteMode $ \nowhere ->
  bracket (createProcess (proc program arguments) {std_in = NoStream, std_out = CreatePipe, std_err = UseHandle nowhere, close_fds = True}) end $ \(_, out, _, _) ->
    within 60000000 (program ++ " to begin") (ready out) >>= act
  where
    end handles@(_, _, _, process) = do
      terminateProcess process
      _ <- patiently (program ++ " to end") (waitForProcess process)
      cleanupProcess handles

-- | A Python program that answers requests and echoes what comes by WebSocket; the action is given its address.
withApplication :: FilePath -> (String -> IO a) -> IO a
withApplication directory act = do
  let file = directory </> "application.py"
  writeFile file (unlines source)
  beside "python3" [file] (maybe (fail "no pipe") hGetLine) $ \port -> act ("127.0.0.1:" ++ port)
  where
    source =
      [ "import base64, hashlib, http.server",
        "class Handler(http.server.BaseHTTPRequestHandler):",
        "    protocol_version = 'HTTP/1.1'",
        "    def log_message(self, *_): pass",
        "    def do_GET(self):",
        "        key = self.headers.get('Sec-WebSocket-Key')",
        "        if self.path == '/socket' and key:",
        "            self.send_response(101)",
        "            self.send_header('Upgrade', 'websocket')",
        "            self.send_header('Connection', 'Upgrade')",
        "            accept = hashlib.sha1((key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()",
        "            self.send_header('Sec-WebSocket-Accept', base64.b64encode(accept).decode())",
        "            self.end_headers()",
        "            head = self.rfile.read(2)",
        "            while len(head) == 2:",
        "                size = head[1] & 127",
        "                mask, data = self.rfile.read(4), self.rfile.read(size)",
        "                self.wfile.write(bytes([head[0], size]) + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))",
        "                head = self.rfile.read(2)",
        "            self.close_connection = True",
        "            return",
        "        body = b'the application answers ' + self.path.encode()",
        "        self.send_response(200)",
        "        self.send_header('Content-Length', str(len(body)))",
        "        self.end_headers()",
        "        self.wfile.write(body)",
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)",
        "server.daemon_threads = True",
        "print(server.server_address[1], flush=True)",
        "server.serve_forever()"
      ]

freePort :: IO String
freePort = show <$> Ovs.freePort

-- | Whether something listens on a port, or at an address.
listens :: String -> IO Bool
listens port = listensAt AF_INET (SockAddrInet (read port) (tupleToHostAddress (127, 0, 0, 1)))

listensAt :: Family -> SockAddr -> IO Bool
listensAt family address = either (\(_ :: IOException) -> False) (const True) <$> try (bracket opened close (`connect` address))
  where
    opened = socket family Stream 0

place :: FilePath -> [(FilePath, ByteString)] -> IO ()
place directory files = forM_ files $ \(path, text) -> do
  createDirectoryIfMissing True (takeDirectory (directory </> path))
  B.writeFile (directory </> path) text

-- | A certificate and its key.
withCertificate :: FilePath -> (FilePath -> FilePath -> IO a) -> IO a
withCertificate directory act = do
  let (certificate, key) = (directory </> "site.pem", directory </> "site.key")
  makeCertificate certificate key ["localhost"]
  act certificate key

makeCertificate :: FilePath -> FilePath -> [String] -> IO ()
makeCertificate certificate key names = do
  made <- runTool "openssl" ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate, "-subj", "/CN=" ++ concat (take 1 names), "-addext", "subjectAltName=" ++ intercalate "," (map ("DNS:" ++) names), "-days", "30"]
  unless (endedCode made == ExitSuccess) (unexpected "a certificate" (show made))

-- | The access log, once it has a line.
logged :: FilePath -> IO String
logged path = eventually "a line in the log" (C.unpack . either (\(_ :: IOException) -> "") id <$> try (B.readFile path)) ('\n' `elem`)

-- Recipes -----------------------------------------------------------------------------------

staticSite :: IO ()
staticSite = withDirectory $ \d -> do
  place d [("www/index.html", "the index"), ("www/404.html", "This page has moved.\n"), ("www/assets/site.4f2a.css", C.replicate 5000 'x'), ("log/.keep", "")]
  blocks <- cooked "Static site" [("/srv/www", d </> "www"), ("--listen :80", "--listen 127.0.0.1:0"), ("/var/log/heddle", d </> "log")]
  runCommands "find" blocks
  serving blocks $ \program -> do
    trying blocks "http://localhost" (urlOf program) d
    logged (d </> "log" </> "access.log") >>= contains "\"GET / HTTP/1.1\" 200"

application :: IO ()
application = withDirectory $ \d -> withApplication d $ \upstream -> do
  place d [("dist/index.html", "the application")]
  blocks <- cooked "Single-page application" [("/srv/app/dist", d </> "dist"), ("127.0.0.1:3000", upstream)]
  serving blocks $ \program -> trying blocks "http://localhost:8080" (urlOf program) d

php :: IO ()
php = withDirectory $ \d -> do
  -- php-fpm's processes have another user.
  setFileMode d 0o755
  own <- asOwnUser
  place
    d
    [ ("public/index.php", "<?php echo strtok($_SERVER['REQUEST_URI'], '?'), ' of ', $_SERVER['SCRIPT_NAME'], ', name=', $_GET['name'] ?? '';"),
      ("public/upload.php", "<?php http_response_code(is_uploaded_file($_FILES['file']['tmp_name'] ?? '') ? 200 : 400);"),
      ("public/style.css", "p { margin: 0 }\n"),
      ("shop/public/index.php", several "shop"),
      ("blog/public/index.php", several "blog"),
      ("fpm.conf", C.pack ("[global]\nerror_log = " ++ d </> "fpm.log" ++ "\ndaemonize = no\ninclude = " ++ d </> "pool.conf" ++ "\n"))
    ]
  blocks <- cooked "PHP" ([("/etc/php/8.2/fpm/pool.d/site.conf", d </> "pool.conf"), ("/etc/heddle", d), ("/run/php/site.sock", d </> "site.sock"), ("/srv/site/public", d </> "public"), ("/srv", d)] ++ own)
  writeFiles blocks
  -- The page's second half is about several sites.
  let (one, sites) = break ((== "yaml") . blockLanguage) blocks
  let listening = listensAt AF_UNIX (SockAddrUnix (d </> "site.sock"))
  beside "php-fpm8.2" ["-F", "-y", d </> "fpm.conf"] (\_ -> eventually "php-fpm to listen" listening id) $ \_ ->
    forM_ [one, sites] $ \part -> serving part $ \program -> trying part "http://localhost:8080" (urlOf program) d
  where
    several name = "<?php echo strtok($_SERVER['REQUEST_URI'], '?'), ' of the " <> name <> ", name=', $_GET['name'] ?? '', ', in ', $_SERVER['APP_ENV'] ?? 'development';"
    -- Only root can give processes to another user.
    asOwnUser = do
      user <- getEffectiveUserID
      if user == 0
        then pure []
        else do
          name <- userName <$> getUserEntryForID user
          group <- getEffectiveGroupID >>= fmap groupName . getGroupEntryForID
          pure [("user = www-data", "user = " ++ name), ("owner = www-data", "owner = " ++ name), ("group = www-data", "group = " ++ group)]

git :: IO ()
git = withDirectory $ \d -> do
  blocks <- cooked "Git server" [("/srv/git", d </> "git")]
  runCommands "git init" blocks
  serving blocks $ \program -> trying blocks "http://localhost:8080" (urlOf program) d

webSocket :: IO ()
webSocket = withDirectory $ \d -> withApplication d $ \one -> withApplication d $ \two -> do
  blocks <- cooked "Application with WebSocket" [("127.0.0.1:3000,", one ++ ","), ("127.0.0.1:3001", two)]
  serving blocks $ \program -> do
    trying blocks "http://localhost:8080" (urlOf program) d
    withClient (addressOf program) $ \client -> do
      say client "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
      top <- headOf client
      contains "HTTP/1.1 101 " (C.unpack top)
      contains "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" (C.unpack top)
      forM_ [1 .. 3 :: Int] $ \_ -> do
        -- "hello" under a mask of ones.
        say client (B.concat ["\x81\x85\x01\x01\x01\x01", "idmmn"])
        hearExactly client 7 >>= (@?= "\x81\x05hello")
      finish client
      hearEnd client
  where
    headOf client = go B.empty
      where
        go seen
          | "\r\n\r\n" `B.isSuffixOf` seen = pure seen
          | otherwise = hearExactly client 1 >>= \b -> if B.null b then unexpected "a head" (show seen) else go (seen <> b)

hosts :: IO ()
hosts = withDirectory $ \d -> do
  place d [(name </> "index.html", C.pack ("the index of " ++ name)) | name <- names]
  createDirectoryIfMissing True (d </> "log")
  forM_ names $ \name -> makeCertificate (d </> name ++ ".pem") (d </> name ++ ".key") (if name == "example.net" then ["*." ++ name] else [name, "www." ++ name])
  authorities <- mconcat <$> mapM (\name -> B.readFile (d </> name ++ ".pem")) names
  B.writeFile (d </> "authorities.pem") authorities
  plain <- freePort
  secure <- freePort
  blocks <-
    cooked
      "Several hosts with TLS"
      [ ("/etc/heddle", d),
        ("/var/log/heddle", d </> "log"),
        ("/etc/ssl", d),
        ("/srv", d),
        ("\":80\"", show ("127.0.0.1:" ++ plain)),
        ("https://:443", "https://127.0.0.1:" ++ secure),
        -- Redirections name the port.
        ("308 https://example.org/", "308 https://example.org:" ++ secure ++ "/"),
        -- Names lead to the server, whose certificates are verified.
        ("curl -s ", "curl -s --cacert " ++ d </> "authorities.pem --connect-to :80:127.0.0.1:" ++ plain ++ " --connect-to :443:127.0.0.1:" ++ secure ++ " ")
      ]
  writeFiles blocks
  case [line | b <- commands blocks, line <- blockLines b] of
    [command] -> serveBy [] command $ \_ -> do
      tryingAll (examples blocks) d
      text <- eventually "a line for each request" (C.unpack <$> B.readFile (d </> "log" </> "access.log")) ((== 5) . length . lines)
      forM_ ["127.0.0.1 example.org - \"GET /a?b HTTP/1.1\" 308", "127.0.0.1 shop.example.net shop.example.net \"GET / HTTP/2.0\" 200", "127.0.0.1 www.example.com www.example.com \"GET / HTTP/2.0\" 421"] (`contains` text)
    other -> unexpected "one command" (show other)
  where
    names = ["example.org", "example.net"]

cloudflare :: IO ()
cloudflare = withDirectory $ \d -> withCertificate d $ \certificate key -> do
  -- As the files of Cloudflare are: the last line may have no end.
  place d [("www/index.html", "the index"), ("log/.keep", ""), ("ips-v4", "173.245.48.0/20\n127.0.0.1/32"), ("ips-v6", "2400:cb00::/32\n2606:4700::/32")]
  blocks <-
    cooked
      "Behind Cloudflare"
      [ ("https://www.cloudflare.com/", "file://" ++ d ++ "/"),
        ("https://:443", "https://127.0.0.1:0"),
        ("/srv/www", d </> "www"),
        ("/etc/ssl/origin.pem", certificate),
        ("/etc/ssl/origin.key", key),
        ("/var/log/heddle", d </> "log")
      ]
  serving blocks $ \program -> do
    forM_ [["-H", "X-Forwarded-For: 6.6.6.6, 203.0.113.9"], ["--interface", "127.0.0.2", "-H", "X-Forwarded-For: 6.6.6.6"]] $ \more -> do
      got <- runTool "curl" (["-sS", "-k", "--max-time", "20", urlOf program ++ "/"] ++ more)
      (endedCode got, endedOut got) @?= (ExitSuccess, "the index")
    text <- eventually "two lines" (C.unpack <$> B.readFile (d </> "log" </> "access.log")) ((== 2) . length . lines)
    -- Lines of different cores may be in another order.
    forM_ ["203.0.113.9 127.0.0.1 \"GET / HTTP/2.0\" 200", "127.0.0.2 127.0.0.2 \"GET / HTTP/2.0\" 200"] (`contains` text)

haproxy :: IO ()
haproxy = withDirectory $ \d -> withCertificate d $ \certificate key -> do
  place d [("www/index.html", "the index"), ("log/.keep", "")]
  front <- freePort
  back <- freePort
  blocks <-
    cooked
      "Behind haproxy"
      [ ("/etc/haproxy/haproxy.cfg", d </> "haproxy.cfg"),
        ("bind :443", "bind 127.0.0.1:" ++ front),
        ("127.0.0.1:8443", "127.0.0.1:" ++ back),
        ("/srv/www", d </> "www"),
        ("/etc/ssl/site.pem", certificate),
        ("/etc/ssl/site.key", key),
        ("/var/log/heddle", d </> "log")
      ]
  writeFiles blocks
  serving blocks $ \_ ->
    beside "haproxy" ["-db", "-f", d </> "haproxy.cfg"] (\_ -> eventually "haproxy to listen" (listens front) id) $ \_ -> do
      got <- runTool "curl" ["-sS", "-k", "--interface", "127.0.0.2", "--max-time", "20", "https://127.0.0.1:" ++ front ++ "/"]
      (endedCode got, endedOut got) @?= (ExitSuccess, "the index")
      logged (d </> "log" </> "access.log") >>= contains "127.0.0.2 - - "
      trying blocks "https://localhost" ("https://127.0.0.1:" ++ front) d

-- The image's content in a chroot, as the container's user. There is no /proc in it either.
container :: IO String
container = do
  user <- getEffectiveUserID
  if user /= 0 then pure "only root can make a chroot: left out" else "" <$ withDirectory inside
  where
    inside d = do
      blocks <- cooked "Container" [("packaging/container_root.sh", "../../packaging/container_root.sh"), ("packaging/root", d </> "root")]
      runCommands "../../packaging/container_root.sh" blocks
      given <- recipe "Container"
      file <- readFile "../../packaging/Containerfile"
      [unlines (("# " ++ path) : blockLines b) | b <- given, Just path <- [blockPath b]] @?= [file]
      place d [("root/srv/index.html", "the index")]
      let words' name = concat [read rest | line <- lines file, Just rest <- [stripPrefix (name ++ " ") line]] :: [String]
          environment = [(name, drop 1 text) | line <- lines file, Just rest <- [stripPrefix "ENV " line], let (name, text) = break (== '=') rest]
          inRoot = words' "ENTRYPOINT" ++ map (changed [(":8080", "127.0.0.1:0")]) (words' "CMD")
      withProgramIn environment ("/usr/sbin/chroot", ["--userspec=65534:65534", d </> "root"] ++ inRoot) $ \program -> do
        got <- runTool "curl" ["-sS", "--max-time", "20", urlOf program ++ "/"]
        (endedCode got, endedOut got) @?= (ExitSuccess, "the index")

systemd :: IO ()
systemd = withDirectory $ \d -> do
  heddle <- findExecutable "heddle" >>= maybe (fail "heddle is not on the PATH") pure
  unit <- readFile "../../packaging/heddle.service"
  place d [("www/index.html", "the index"), ("log/.keep", ""), ("units/heddle.service", C.pack (changed [("@BINDIR@", takeDirectory heddle), ("@SYSCONFDIR@", d)] unit))]
  blocks <-
    cooked
      "systemd"
      [ ("/etc/heddle", d),
        ("/etc/default", d </> "default"),
        ("/srv/www", d </> "www"),
        ("--listen :80", "--listen 127.0.0.1:0"),
        ("\":80\"", "\"127.0.0.1:0\""),
        ("/var/log/heddle", d </> "log")
      ]
  writeFiles blocks
  verified <- runToolIn [("SYSTEMD_UNIT_PATH", d </> "units:")] "systemd-analyze" ["verify", "--man=no", d </> "units/heddle.service"]
  (endedCode verified, endedErr verified) @?= (ExitSuccess, "")
  let start = fromMaybe "" (find ("heddle serve" `isInfixOf`) (lines unit))
  start @?= "ExecStart=@BINDIR@/heddle serve $HEDDLE_SERVE"
  serveBy [] ("sh -c '. " ++ d </> "default/heddle" ++ "; exec heddle serve $HEDDLE_SERVE'") $ \program -> do
    got <- runTool "curl" ["-sS", "--max-time", "20", urlOf program ++ "/"]
    endedOut got @?= "the index"
    void (logged (d </> "log/access.log"))
  let configurations = [path | b <- blocks, blockLanguage b == "yaml", Just path <- [blockPath b]]
  length configurations @?= 1
  forM_ configurations $ \path -> serveBy [] ("heddle serve --config " ++ path) $ \program -> do
    got <- runTool "curl" ["-sS", "--max-time", "20", "-o", "/dev/null", "-w", "%header{cache-control}", urlOf program ++ "/"]
    endedOut got @?= "no-cache, private"
