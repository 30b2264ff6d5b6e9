-- | The MPI examples: what they compute, and that jobs of any size under any MPI find the same.
module MpiTest
  ( tests,
  )
where

import Control.Exception (bracket)
import Control.Monad (forM_)
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf, isPrefixOf)
import Mpi.Shares
import Mpi.Trapezoid
import Mpi.Words
import System.Directory (findExecutable, removePathForcibly)
import System.Environment (getEnvironment)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Temp (mkdtemp)
import System.Process
import System.Timeout (timeout)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, assertFailure, testCase, (@?=))
import Test.Tasty.QuickCheck (NonNegative (..), Positive (..), elements, forAll, listOf, testProperty, (===))

tests :: TestTree
tests =
  testGroup
    "mpi"
    [ testProperty "shares follow on each other, and are all there is" $ \(NonNegative pieces') (Positive many) ->
        let shares = map (shareOf pieces' many) [0 .. many - 1]
         in (map shareStart shares ++ [pieces'] === scanl (+) 0 (map shareSize shares)),
      testProperty "shares differ by one at the most" $ \(NonNegative pieces') (Positive many) ->
        let sizes = map (shareSize . shareOf pieces' many) [0 .. many - 1] in maximum sizes - minimum sizes <= 1,
      testProperty "the words of the pieces are those of the text" $ \(Positive many) ->
        forAll (listOf (elements "ab \n\t")) $ \text ->
          let whole = C.pack text in (concatMap C.words (pieces many whole), length (pieces many whole)) === (C.words whole, many),
      testCase "the integral of the sine over half a period is 2" $ do
        let problem = Problem 0 pi 100000
        assertBool "sequential" (abs (sequential problem - 2) < 1e-9)
        forM_ [1, 2, 3, 7] $ \cores -> assertBool (show cores) (abs (threads cores problem - 2) < 1e-9),
      testCase "fewer trapezoids than threads" $ assertBool "" (abs (threads 5 (Problem 0 1 2) - sequential (Problem 0 1 2)) < 1e-15),
      testCase "the most frequent words; of equals the first" $
        mostFrequent 2 (countWords (C.pack "b a\tc a\nb")) @?= [(C.pack "a", 2), (C.pack "b", 2)],
      testGroup "jobs" [integrals, plates, texts, failures]
    ]

-- A program alone, and in jobs of 1 to 4 ranks under each MPI that is there.
everywhere :: [String] -> ((ExitCode, String, String) -> IO ()) -> IO ()
everywhere command check = do
  run command >>= check
  forM_ [("openmpi", "mpirun.openmpi"), ("mpich", "mpiexec.mpich")] $ \(mpi, launcher) ->
    findExecutable launcher >>= mapM_ (\_ -> forM_ [1 .. 4 :: Int] (\n -> run (["heddle-mpirun", "--mpi", mpi, "-n", show n] ++ command) >>= check))

run :: [String] -> IO (ExitCode, String, String)
run command = do
  inherited <- getEnvironment
  let clean = [entry | entry@(name, _) <- inherited, not (any (`isPrefixOf` name) ["OMPI_", "PMI", "HEDDLE_MPI"])]
  program <- findExecutable (head command) >>= maybe (assertFailure (head command ++ " is not there")) pure
  timeout 60000000 (readCreateProcessWithExitCode (proc program (tail command)) {env = Just clean} "")
    >>= maybe (assertFailure (unwords command ++ ": did not end")) pure

integrals, plates, texts, failures :: TestTree
integrals = testCase "the integral, by messages and by a gather" $
  forM_ ["messages", "gather"] $ \way -> everywhere ["heddle-trapezoid", way, "0", "1", "1001"] $ \(code, out, err) -> do
    (code, err) @?= (ExitSuccess, "")
    let answer = read (takeWhile (/= ' ') out) :: Double
    assertBool out (abs (answer - 0.459697655587) < 1e-9)
plates = testCase "heat, the same bit for bit" $
  everywhere ["heddle-heat", "--rows", "13", "--columns", "9", "--steps", "40", "--quiet"] $ \(code, out, err) -> do
    (code, err) @?= (ExitSuccess, "")
    assertBool out ("one core finds the same, bit for bit" `isInfixOf` out)
texts = testCase "words" . withFolder $ \folder -> do
  let file = folder </> "text"
  C.writeFile file (C.pack (concat (replicate 3000 "the cat and the hat \n")))
  everywhere ["heddle-word-count", "--top", "2", file] $ \answer ->
    answer @?= (ExitSuccess, "15000 words, 4 different ones\n6000 the\n3000 and\n", "")
failures = testCase "what is wrong ends the job" $ do
  everywhere ["heddle-word-count", "/no/such/file"] $ \(code, _, err) -> do
    assertBool (show code) (code /= ExitSuccess)
    assertBool err ("heddle-word-count: cannot read /no/such/file" `isInfixOf` err)
  (code, _, err) <- run ["heddle-trapezoid", "gather", "0", "1", "0"]
  (code, "not a number of trapezoids: 0" `isInfixOf` err) @?= (ExitFailure 2, True)

withFolder :: (FilePath -> IO a) -> IO a
withFolder = bracket (mkdtemp "/tmp/heddle-examples-mpi-") removePathForcibly
