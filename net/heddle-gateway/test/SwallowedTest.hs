{-# LANGUAGE OverloadedStrings #-}

-- | Errors beside a request that once became a false answer, or none.
module SwallowedTest (tests) where

import CgiTest (Programs (..), withProgramsOn)
import Control.Exception (bracket, bracket_)
import Control.Monad (void)
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf)
import GHC.Conc (getUncaughtExceptionHandler, setUncaughtExceptionHandler)
import GatewayFixture
import Heddle.Gateway.Cgi
import Heddle.Http (defaultSettings)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import System.Directory (createDirectory)
import System.FilePath ((</>))
import System.Posix.Files (setFileMode)
import System.Posix.Resource
import System.Posix.Signals (Handler (..), installHandler, sigCHLD)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "errors beside a request"
    [ testCase "aLineThatCouldNotBeToldStoppedTheProgram" untold,
      testCase "programsWereMissingWithoutDescriptors" withoutDescriptors,
      testCase "howProgramsEndedWasUnknownWhereSigchldWasIgnored" ignored
    ]

-- More lines than the pipe has room for.
untold :: IO ()
untold = bracket (getUncaughtExceptionHandler <* setUncaughtExceptionHandler (\_ -> pure ())) setUncaughtExceptionHandler $ \_ ->
  withProgramsOn defaultSettings (\s -> s {cgiTell = \_ -> ioError (userError "the log is away")}) $ \programs ->
    asking (programsRunning programs) "/p/t?errors:20000+type+hello" >>= answersWith 200 "hello\n"

withoutDescriptors :: IO ()
withoutDescriptors = do
  withProgramsOn defaultSettings id $ \programs -> refusedAt programs (programsRunning programs) "/p/t?type+hello" "/p/sub/"
  withDirectory $ \directory -> do
    createDirectory (directory </> "p")
    writeFile (directory </> "p" </> "script.x") "a script"
    writeFile (directory </> "interpreter") "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello\\n'\n"
    setFileMode (directory </> "interpreter") 0o755
    told <- newTold
    withTestRuntime $ \runtime -> withCgi runtime (defaultCgiSettings (C.pack (directory </> "interpreter"))) {cgiTell = tellTo told} $ \cgi ->
      withGatewayServer runtime (cgiScriptGateway cgi (C.pack directory) [".x"]) $ \running ->
        failing running "/p/script.x" >> void (eventually "the cause" (toldLines told) (any ("EMFILE" `isInfixOf`)))
  where
    refusedAt programs running path index = do
      failing running path
      failing running index
      void (eventually "the cause" (toldLines (programsTold programs)) (any ("EMFILE" `isInfixOf`)))
    -- The connection is there before descriptors are short.
    failing running path = withClient (runningAddress running) $ \client -> do
      ask client "GET" path [] "" >>= (@?= 200) . answerCode
      limits <- getResourceLimit ResourceOpenFiles
      let set now = setResourceLimit ResourceOpenFiles limits {softLimit = now}
      bracket_ (set (ResourceLimit 3)) (set (softLimit limits)) $
        ask client "GET" path [] "" >>= (@?= 503) . answerCode
      ask client "GET" path [] "" >>= (@?= 200) . answerCode

ignored :: IO ()
ignored = bracket (installHandler sigCHLD Ignore Nothing) (\old -> installHandler sigCHLD old Nothing) $ \_ ->
  withDirectory $ \directory -> do
    -- Made by a shell, since this process cannot wait for a compiler now.
    writeFile (directory </> "ends") "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhello'\nkill -TERM $$\n"
    setFileMode (directory </> "ends") 0o755
    told <- newTold
    withTestRuntime $ \runtime -> withCgi runtime (defaultCgiSettings (C.pack directory)) {cgiTell = tellTo told} $ \cgi ->
      withGatewayServer runtime (cgiGateway cgi) $ \running -> do
        void (withClient (runningAddress running) $ \client -> say client "GET /p/ends HTTP/1.1\r\nHost: test\r\n\r\n" >> hearSome client)
        void (eventually "how it ended" (toldLines told) (any ("was ended by signal 15" `isInfixOf`)))
