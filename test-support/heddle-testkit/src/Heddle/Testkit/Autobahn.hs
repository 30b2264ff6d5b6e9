-- | Autobahn's cases for WebSocket, by kosoku, a Python package. @make test-conformance@ fetches it.
module Heddle.Testkit.Autobahn
  ( Verdict (..),
    againstServer,
    againstClient,
    everyCase,
    quickCases,
    refusals,
  )
where

import Control.Exception (bracket)
import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, isPrefixOf)
import Heddle.Testkit.Watchdog (eventually)
import System.Directory
import System.FilePath ((</>))
import System.IO (IOMode (..), withFile)
import System.Process

-- | What kosoku says of a case.
data Verdict = Verdict {verdictCase :: !String, verdictBehaviour :: !String}
  deriving stock (Eq, Ord, Show)

-- | All groups, which takes a quarter of an hour. The eighth and the eleventh have no case.
everyCase :: [String]
everyCase = quickCases ++ ["9.*", "12.*", "13.*"]

-- | Those that take seconds: without large messages and compressed ones.
quickCases :: [String]
quickCases = [show n ++ ".*" | n <- [1 .. 7 :: Int] ++ [10]]

-- | Run the cases of these groups against a server's URL.
againstServer :: FilePath -> [String] -> String -> IO [Verdict]
againstServer kosoku groups url = inFolder $ \folder -> do
  void (readProcessWithExitCode kosoku (["-m", "fuzzingclient", "-o", folder] ++ chosen groups ++ [url]) "")
  verdictsIn folder

-- | Run the cases of these groups against a client. The action is given the server's address without a scheme; it asks for the number
-- of cases, runs each, and asks for the report.
againstClient :: FilePath -> [String] -> (String -> IO ()) -> IO [Verdict]
againstClient kosoku groups client = inFolder $ \folder -> do
  let said = folder </> "said"
  withFile said WriteMode $ \out ->
    bracket
      (createProcess (proc kosoku (["-m", "fuzzingserver", "-o", folder] ++ chosen groups ++ ["127.0.0.1:0"])) {std_out = UseHandle out, std_err = UseHandle out})
      (\(_, _, _, p) -> terminateProcess p >> waitForProcess p)
      $ \_ -> do
        text <- eventually "kosoku to listen" (C.unpack <$> B.readFile said) (any isAddress . words)
        client (dropScheme (last (filter isAddress (words text))))
        -- Written when the last connection has ended.
        _ <- eventually "kosoku's report" (reportIn folder) (C.isSuffixOf (C.pack "}") . C.takeWhileEnd (/= '\n') . B.dropWhileEnd (== 10))
        verdictsIn folder
  where
    isAddress w = "127.0.0.1:" `isInfixOf` w && not ("127.0.0.1:0" `isPrefixOf` w)
    dropScheme w = if "ws://" `isPrefixOf` w then drop 5 w else w

chosen :: [String] -> [String]
chosen = concatMap (\group -> ["-i", group])

-- | Those that were not passed strictly. kosoku 0.1 itself fails in the first case of some groups (ERROR), which says nothing.
refusals :: [Verdict] -> [Verdict]
refusals verdicts = [v | v <- verdicts, verdictBehaviour v `notElem` ["OK", "INFORMATIONAL", "UNIMPLEMENTED", "ERROR"], number v `notElem` broken]
  where
    broken = [number v | v <- verdicts, verdictBehaviour v == "ERROR"]
    number = takeWhile (/= ' ') . verdictCase

-- The behaviours in kosoku's index; that at closing belongs to the same case, with another name.
verdictsIn :: FilePath -> IO [Verdict]
verdictsIn folder = go "" . C.split '"' <$> reportIn folder
  where
    go :: String -> [ByteString] -> [Verdict]
    go key = \case
      name : more | isCase name -> go (C.unpack name) more
      name : _ : v : more
        | name == C.pack "behavior" -> Verdict key (C.unpack v) : go key more
        | name == C.pack "behaviorClose" -> Verdict (key ++ " close") (C.unpack v) : go key more
      _ : more -> go key more
      [] -> []
    isCase s = not (B.null s) && C.all (`elem` ("0123456789." :: String)) s && C.count '.' s >= 2

-- Empty before it is written.
reportIn :: FilePath -> IO ByteString
reportIn folder = do
  there <- doesFileExist (folder </> "index.json")
  if there then B.readFile (folder </> "index.json") else pure B.empty

inFolder :: (FilePath -> IO a) -> IO a
inFolder = bracket make removePathForcibly
  where
    make = do
      temporary <- getTemporaryDirectory
      process <- getCurrentPid
      let folder = temporary </> ("heddle-autobahn-" ++ show process)
      folder <$ createDirectoryIfMissing True folder
