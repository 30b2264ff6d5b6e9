{-# LANGUAGE OverloadedStrings #-}

-- | Names and passwords.
module AuthTest (tests) where

import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Program
import System.Directory (createDirectory, renameFile)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import System.Posix.Signals (sigTERM)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "names and passwords"
    [ testCase "heddle password makes the line, and --basic-auth asks for it: curl, cached or not, over HTTP/2, too" $
        site $ \d -> do
          line <- password "ann" "s\252r:et"
          B.writeFile (d </> "users") line
          serving d ["--cores", "1", "--error-page", "401=401.html", "--header", "**=X-A:b"] $ \program -> do
            let curl more = runTool "curl" (["-sSi"] ++ more ++ [head (programUrls program) ++ "/"])
            forM_ [["-u", "ann:s\252r:et"], ["-u", "ann:s\252r:et", "--http2-prior-knowledge"], ["-u", "ann:s\252r:et"]] $ \more ->
              curl more >>= contains "home" . C.unpack . endedOut
            forM_ [[], ["-u", "ann:wrong"], ["-u", "ann:s\252r:ets"], ["-u", "bob:s\252r:et"], ["-u", "ann:"], ["-H", "Authorization: Basic ???"], ["-H", "Authorization: Bearer x"], ["--http2-prior-knowledge"]] $ \more -> do
              refused <- C.unpack . endedOut <$> curl more
              contains "401" refused
              contains "please" refused
              assertBool refused (not (C.pack "home" `B.isInfixOf` C.pack refused))
            plain <- C.unpack . endedOut <$> curl []
            contains "WWW-Authenticate: Basic realm=" plain
            contains "X-A: b" plain,
      testCase "aPasswordThatCouldNotBeReadWasNone" $
        forM_ [("/", "cannot be read"), ("/dev/null", "there is no password")] $ \(input, why) -> do
          ended <- runTool "sh" ["-c", "heddle password --cost 4 ann <" ++ input]
          contains why (endedErr ended)
          endedCode ended @?= ExitFailure 2,
      testCase "a program is told who has given the right password" $
        site $ \d -> do
          password "ann" "x" >>= B.writeFile (d </> "users")
          let programs = d </> "programs"
          createDirectory programs
          writeFile (programs </> "who") "#!/bin/sh\necho Content-Type: text/plain\necho\necho \"$AUTH_TYPE|$REMOTE_USER|$HTTP_AUTHORIZATION\"\n"
          setFileMode (programs </> "who") 0o755
          -- Twice: the second time the password is remembered.
          serving d ["--cgi", "/cgi=" ++ programs] $ \program -> forM_ [1, 2 :: Int] $ \_ ->
            runTool "curl" ["-sS", "-u", "ann:x", head (programUrls program) ++ "/cgi/who"] >>= \ended -> endedOut ended @?= "Basic|ann|\n",
      testCase "userWasNotLogged: in every format; who has not proved a name is nobody" $
        site $ \d -> do
          mapM (`password` "x") ["ann", "o\"b j"] >>= B.writeFile (d </> "users") . B.concat
          forM_ ["combined", "common", "json", "$remote_user|$status"] $ \format -> do
            let path = d </> "log"
            B.writeFile path ""
            serving d ["--cores", "1", "--access-log", path, "--log-format", format] $ \program -> do
              -- Twice: the second time the password is remembered.
              forM_ [["-u", "ann:x"], ["-u", "ann:x", "--http2-prior-knowledge"], ["-u", "o\"b j:x"], ["-u", "ann:wrong"], ["-u", "x:x"], []] $ \more ->
                runTool "curl" (["-sS", "-o", "/dev/null", head (programUrls program) ++ "/"] ++ more)
              signal program sigTERM
              ends program >>= (@?= ExitSuccess)
            entries <- C.lines <$> B.readFile path
            let users = ["ann", "ann", "o\"b j", "", "", ""] :: [ByteString]
            length entries @?= length users
            forM_ (zip users entries) $ \(user, entry) -> case format of
              "json"
                | B.null user -> assertBool (show entry) (not ("\"user\":" `B.isInfixOf` entry))
                | otherwise -> contains ("\"user\":" ++ show user ++ ",") (C.unpack entry)
              '$' : _ -> entry @?= (if B.null user then "-|401" else escaped user <> "|200")
              _ -> C.words entry !! 2 @?= (if B.null user then "-" else B.intercalate "\\x20" (C.words (escaped user))),
      testCase "every method and path is guarded, those that do not exist, too" $
        site $ \d -> do
          password "ann" "x" >>= B.writeFile (d </> "users")
          serving d ["--cores", "1", "--autoindex"] $ \program ->
            withClient (addressOf program) $ \client -> forM_ [("GET", "/nothing"), ("HEAD", "/"), ("POST", "/"), ("OPTIONS", "/"), ("GET", "/list/"), ("GET", "/%zz")] $ \(method, path) -> do
              say client (B.concat [method, " ", path, " HTTP/1.1\r\nHost: a\r\n\r\n"])
              answer <- hear client method >>= maybe (unexpected "an answer" "the end") pure
              answerCode answer @?= 401,
      testCase "a line of htpasswd -B, and one of SHA-512 by mkpasswd's kin, among comments" $
        site $ \d -> do
          htpasswd <- runTool "htpasswd" ["-nbB", "bob", "builder"]
          hashed <- runTool "openssl" ["passwd", "-6", "-salt", "abcdefgh", "carol's"]
          B.writeFile (d </> "users") (B.concat ["# staff\r\n\n", C.strip (endedOut htpasswd), "\r\ncarol:", endedOut hashed])
          serving d [] $ \program -> forM_ ["bob:builder", "carol:carol's"] $ \credentials ->
            runTool "curl" ["-sS", "-u", credentials, head (programUrls program)] >>= \ended -> endedOut ended @?= "home",
      testCase "a changed file is used within seconds, also against remembered passwords; a wrong one is not, and that is said" $
        site $ \d -> do
          password "ann" "old" >>= B.writeFile (d </> "users")
          serving d [] $ \program -> do
            let code credentials = C.unpack . endedOut <$> runTool "curl" ["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-u", credentials, head (programUrls program)]
                become line = B.writeFile (d </> "users.new") line >> renameFile (d </> "users.new") (d </> "users")
            code "ann:old" >>= (@?= "200")
            password "ann" "new" >>= become
            void (eventually "the new password" (code "ann:new") (== "200"))
            void (eventually "the old one refused" (code "ann:old") (== "401"))
            become "ann:plain\n"
            void (eventually "a message" (code "ann:new" >> programErr program) (("line 1 has a hash that is weak or unknown" `B.isInfixOf`) . C.pack))
            code "ann:new" >>= (@?= "200"),
      testGroup "files that are refused, with the line" $
        [ testCase (show content) $
            site $ \d -> do
              B.writeFile (d </> "users") content
              ended <- runTool "heddle" (["serve", d </> "www", "--basic-auth", d </> "users"] ++ free)
              endedCode ended @?= ExitFailure 2
              contains part (endedErr ended)
          | (content, part) <-
              [ ("", "it names no user"),
                ("# nobody\n", "it names no user"),
                ("ann\n", "line 1 is not USER:HASH"),
                (":x\n", "line 1 is not USER:HASH"),
                ("ann:secret\n", "line 1 has a hash that is weak or unknown"),
                ("ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n", "weak or unknown"),
                ("ann:$apr1$abcdefgh$abcdefghijklmnopqrstu1\n", "weak or unknown"),
                ("ann:$2y$05$tooshort\n", "weak or unknown"),
                ("ann:$6$x$y\nann:$6$x$y\n", "line 2 names ann again")
              ]
        ],
      testCase "a file that is not there" $ do
        ended <- runTool "heddle" (["serve", "/tmp", "--basic-auth", "/no/such/file"] ++ free)
        endedCode ended @?= ExitFailure 2
        contains "cannot use the users in /no/such/file" (endedErr ended),
      testGroup "heddle password refuses" $
        [ testCase (show (user, secret)) $ do
            ended <- runTool "sh" ["-c", "printf '%s\\n' \"$2\" | heddle password --cost 4 \"$1\"", "sh", user, secret]
            endedCode ended @?= ExitFailure 2
            contains "heddle password: " (endedErr ended)
          | (user, secret) <- [("a:b", "x"), ("", "x"), ("#a", "x"), ("ann", ""), ("ann", replicate 73 'x')]
        ]
    ]

escaped :: ByteString -> ByteString
escaped = C.concatMap (\c -> if c == '"' then "\\\"" else C.singleton c)

site :: (FilePath -> IO a) -> IO a
site act = withDirectory $ \d -> do
  mapM_ (createDirectory . (d </>)) ["www", "www/list"]
  B.writeFile (d </> "www" </> "index.html") "home"
  B.writeFile (d </> "www" </> "401.html") "please"
  act d

serving :: FilePath -> [String] -> (Program -> IO a) -> IO a
serving d more = withProgram (["serve", d </> "www", "--basic-auth", d </> "users"] ++ free ++ more)

-- At the least cost, for the tests' time.
password :: String -> String -> IO ByteString
password user secret = do
  ended <- runTool "sh" ["-c", "printf '%s\\n' \"$2\" | heddle password --cost 4 \"$1\"", "sh", user, secret]
  endedErr ended @?= ""
  pure (endedOut ended)
